// The Runs screen's state and what app.c needs of it. app->runs is made on first use.
// UI thread only.
#ifndef TUI_RUNS_VIEW_H
#define TUI_RUNS_VIEW_H

struct runs_view; // scr_runs.c

void runs_view_free(struct runs_view *v); // NULL is fine

#endif
