// What the Runs screen holds, shared by its input (scr_runs.c) and its drawing (runs_draw.c).
// UI thread only.
#ifndef TUI_RUNS_STATE_H
#define TUI_RUNS_STATE_H

#include "tui/canvas.h"
#include "tui/list.h"
#include "tui/monitor_state.h"
#include "tui/runs_index.h"

struct runs_view {
    struct runs_index index;
    struct list list;
    struct monitor detail; // follows the run under the cursor, for its curve
    char ask_id[64];       // the run a question on screen is about
};

// The run under the cursor, NULL when there is none.
struct runs_entry *runs_selected(const struct runs_view *v);

void runs_draw(struct runs_view *v, struct canvas *c, const struct rect *body, double now);

// The profile's FFN widths as at most `width` bars, each layer or group of neighbours by its
// largest, relative to the largest of all. UTF-8 eighth blocks or the ramp .:-=+*# in ASCII.
void runs_shape_text(const int *ffn_width, int n_layers, int width, bool utf8, char *out,
                     size_t size);

#endif
