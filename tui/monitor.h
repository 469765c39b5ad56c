// The Monitor screen's state and what app.c needs of it. app->monitor is made on first use.
// UI thread only.
#ifndef TUI_MONITOR_H
#define TUI_MONITOR_H

struct app;
struct monitor; // scr_monitor.c

// Follows that run from now on (does not switch the screen). run_dir as from run_find().
void monitor_watch(struct app *app, const char *run_dir);
const char *monitor_run_dir(const struct app *app); // "" while no run is followed
void monitor_free(struct monitor *m);               // NULL is fine

#endif
