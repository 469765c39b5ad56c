// Profiles as YAML: reading with all problems in one pass, and writing.
//
// A problem carries file:line:col (1-based), the path of the key and the nearest known key. Foreign
// input is bounded: size, depth, nodes and aliases (see the limits below), so that hostile files
// give an error and never a crash or a hang.
#ifndef ENGINE_PROFILE_H
#define ENGINE_PROFILE_H

#include <jansson.h>
#include <stdio.h>

#include "engine/buf.h"
#include "engine/err.h"
#include "engine/spec.h"

enum {
    PROFILE_MAX_BYTES = 1 << 20,
    PROFILE_MAX_DEPTH = 16,
    PROFILE_MAX_NODES = 100000, // after expanding aliases
    PROFILE_MAX_EXTENDS = 8,
    PROFILE_MAX_PROBLEMS = 100,
};

enum severity { SEV_ERROR, SEV_WARNING, SEV_NOTE };

struct problem {
    enum severity severity;
    struct err err;
    char path[128];   // "model.ffn_width[3]", "" for syntax
    char source[160]; // the line of text it stands in, "" when unknown
};

struct problems {
    struct problem *v;
    int n, errors; // n counts all severities
};
void problems_release(struct problems *p);
// "file:line:col: path: message", a line each; below an error its source line and a caret, both
// indented by four blanks. Warnings and notes have the word in front of the path.
void problems_print(const struct problems *p, FILE *out);

// Reads path (following extends), a profile or a hub configuration (see hub.h), then applies the n_set "key=value" texts in order.
// Problems are added to p, which the caller zeroes before and releases after.
// Returns 0 when *spec is complete and valid, -1 when at least one error was added. Warnings and
// notes (aliases of other tools' spellings) may be there in both cases.
int profile_load(const char *path, const char *const *set, int n_set, struct spec *spec,
                 struct problems *p);
// The same for text in memory; `name` stands for the file in messages.
int profile_parse(const char *name, const char *text, size_t len, const char *const *set, int n_set,
                  struct spec *spec, struct problems *p);

// Checks a spec that was built or edited in memory (divisibility, ranges, batch sizes, …).
int profile_validate(const struct spec *spec, struct problems *p);

// Sets one key of a complete, valid spec: text is what may stand behind "key=" of a --set, and what
// it gives is checked like a file. Returns 0, or -1 with errors in p and *spec untouched.
// What depends on the key follows: values that were derived from it; lanes, when the layers or the
// grids of their values change (generators and ratios give new values, numbers and lists move onto
// legal ones, lists to the new number of layers); key/value heads keep the one ratio they have to
// the query heads. Notes in p (SEV_NOTE) say what moved. Keys that got another value have no origin
// any more. Setting the value that is there changes nothing.
int profile_set(struct spec *spec, const char *key, const char *text, struct problems *p);

// The text of a key's value, as profile_set() and --set take it: lanes as a generator or ratio
// while it gives their values, else as a number or a list. Appends to out, as the next ones do.
void profile_value_text(const struct spec_key *key, const struct spec *spec, struct buf *out);
// "1 to 65536", "rms | layer", nothing for texts.
void profile_range_text(const struct spec_key *key, struct buf *out);
// "crown.yaml:8", "--set 2", "default", "derived", nothing for what was edited.
void profile_origin_text(const struct spec_key *key, const struct spec *spec, struct buf *out);

// The name a profile in this file has when it gives none: the file's without folders and ending, of
// a config.json its folder's; other characters than a run id may have become '-'. out: SPEC_NAME_SIZE bytes, returned.
char *profile_file_name(const char *file, char *out);

// Full resolved profile: lists only, every key, each with a comment that says where its value came
// from as far as the spec knows: generator, file and line, --set, default, derived.
// header_comment may have several lines, or be NULL. Reading it back gives an equal spec (see
// spec_equal). Caller frees.
char *profile_to_yaml(const struct spec *spec, const char *header_comment);
json_t *profile_to_json(const struct spec *spec); // new reference
// json_dumps() flags that write a profile's JSON without losing a bit of a number.
#define PROFILE_JSON (JSON_INDENT(2) | JSON_REAL_PRECISION(17))

// The key table as help text: path, default, unit, range or choices, meaning.
void profile_print_keys(FILE *out);

// Saves an edited spec to path. An existing file keeps its comments and layout: only the values of
// the keys that differ are replaced in its text (lanes as lists), keys that stand in a file it
// extends are added; if that is not possible (or the file is new) the resolved profile is written.
// The result is read back and must equal *spec. A file that is not a valid profile is not replaced, nor is a
// hub configuration.
// Returns 0 or -1.
int profile_save(const char *path, const struct spec *spec, struct err *err);

// Puts back a text that stood at path when the profile was *spec. It is read back like profile_save().
int profile_restore(const char *path, const char *text, size_t len, const struct spec *spec,
                    struct err *err);

// What profile_save() would do to the file that is at path: *keeps_text is false when its whole
// text would be replaced by the resolved profile; returns how many keys change their values, -1
// when it is not a valid profile (and would not be replaced).
int profile_save_changes(const char *path, const struct spec *spec, bool *keeps_text);

// The embedded default (profiles/demo/crown.yaml as compiled in).
extern const char profile_default_yaml[];

#endif
