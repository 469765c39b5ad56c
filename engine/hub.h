// Hub configurations: the config.json of a published model, as the text of a profile.
//
// One table of families and one of fields (hub_table.c) say what is read. Nothing is guessed: a field
// that is not in the table is listed in a note; one that changes the model in a way that a profile
// cannot say is a warning as long as the tensors stay the same, and an error where the number of
// parameters would be another one. Any thread.
#ifndef ENGINE_HUB_H
#define ENGINE_HUB_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/buf.h"

enum hub_level { HUB_ERROR, HUB_WARNING, HUB_NOTE };

struct hub_place {
    int line, col; // 1-based, 0 = unknown
};

struct hub_message {
    enum hub_level level;
    struct hub_place at;
    char field[96]; // "block_configs[5].attention", "" for syntax
    char text[400];
};

struct hub {
    struct buf yaml;        // a profile; empty after an error
    struct hub_place *line; // of the field that each line of yaml came from
    int n_lines;
    struct hub_message *v; // errors first
    int n, errors;
};

// Whether text is meant as a hub configuration: a JSON object that has model_type, architectures or
// block_configs at its top level. The rest may be broken.
bool hub_is_config(const char *text, size_t len);

// *hub may be uninitialised; release it in both cases. Returns 0, or -1 with errors in hub->v.
int hub_read(const char *text, size_t len, struct hub *hub);
void hub_release(struct hub *hub);

#endif
