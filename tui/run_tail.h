// The end of a run's log.txt as lines fit for the screen. UI thread only.
#ifndef TUI_RUN_TAIL_H
#define TUI_RUN_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/buf.h"
#include "tui/canvas.h"

struct run_tail { // zero-initialise
    char path[512];
    int64_t size;    // of the file when it was read
    struct buf text; // its last 64 KiB at most, whole lines, control characters replaced
    bool cut;        // there is more before
    int back;        // lines scrolled back from the end
};

void run_tail_open(struct run_tail *t, const char *run_dir);
bool run_tail_poll(struct run_tail *t); // true when there is something new
void run_tail_scroll(struct run_tail *t, int lines);
void run_tail_draw(struct run_tail *t, struct canvas *c, const struct rect *r);
void run_tail_release(struct run_tail *t);

#endif
