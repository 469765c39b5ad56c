// What the Monitor screen holds, shared by its input (scr_monitor.c), its words (monitor_draw.c),
// its charts (monitor_chart.c) and its layers (monitor_layers.c). UI thread only.
#ifndef TUI_MONITOR_STATE_H
#define TUI_MONITOR_STATE_H

#include <stdbool.h>

#include "engine/follow.h"
#include "engine/spec.h"
#include "tui/action.h"
#include "tui/canvas.h"
#include "tui/pyramid.h"
#include "tui/run_tail.h"

enum metric { METRIC_LOSS, METRIC_PPL, METRIC_BPB, METRIC_COUNT };
enum x_axis { AXIS_TOKENS, AXIS_STEPS, AXIS_TIME, AXIS_FLOPS, AXIS_COUNT };

// Which points the y axis fits: all, the newest half, the newest tenth.
enum zoom { ZOOM_ALL, ZOOM_HALF, ZOOM_TENTH, ZOOM_COUNT };

// What the waterfall of the layers shows.
enum layers_quantity {
    LAYERS_SPARSITY,
    LAYERS_MEAN,
    LAYERS_VAR,
    LAYERS_ALPHA,
    LAYERS_BETA,
    LAYERS_NORM,
    LAYERS_COUNT
};

// A line beside the raw one: the mean of the records before each point.
enum smooth { SMOOTH_OFF, SMOOTH_10, SMOOTH_100, SMOOTH_1000, SMOOTH_COUNT };

// The part of the x axis that the charts show, in shares of the whole, which ends where the plan does.
struct monitor_view {
    double from, to;
    double cursor; // NaN = none
    int cols;      // of the main chart, at the last drawing
};

struct monitor {
    bool open;         // follows a run
    struct spec *spec; // its profile, NULL when it cannot be read
    bool show_layers;  // instead of the charts
    enum layers_quantity quantity;
    int layer; // the cursor's
    struct follow follow;
    enum metric metric;
    enum x_axis axis;
    bool log_y[METRIC_COUNT];
    enum zoom zoom;
    enum smooth smooth;
    struct monitor_view view;
    bool unseen;      // news that no picture has shown yet
    double drawn;     // when the screen was drawn last
    double frozen_at; // when the picture was frozen, 0 = it moves
    bool show_tail;
    struct run_tail tail;
    // summaries of the columns that are drawn, in step with follow's tables
    struct pyramid train[TRAIN_COLUMNS], eval[EVAL_COLUMNS];
    int run_index, n_runs; // position among all runs, newest first; 0 of 0 = unknown
    struct action action;
    char ask_dir[512]; // the run a question on screen is about
    char age_text[96]; // what the last tick said about the heartbeat
};

// Follows another run, or none.
void monitor_open(struct monitor *m, const char *run_dir);
void monitor_close(struct monitor *m);
// Reads what is new; true when it is time to draw. A long log comes in steps: until it is read, the
// picture follows a few times a second only.
bool monitor_poll(struct monitor *m);

// Draws everything. `now` in seconds since 1970.
void monitor_draw(struct monitor *m, struct canvas *c, const struct rect *body, double now);

// One line about the heartbeat: "live", "no news for 42 s (expected
// every 2 s)", or "" for a run that is not live.
void monitor_heartbeat(const struct monitor *m, double now, char *out, size_t size,
                       enum role *role);

// The chart of the chosen metric, and the further ones of large screens, each with a title line.
enum chart { CHART_METRIC, CHART_LOSS, CHART_PPL, CHART_GRAD_NORM, CHART_SPEED, CHART_LR };
void monitor_chart(struct monitor *m, struct canvas *c, const struct rect *r, enum chart which,
                   double now);
// What the layers do (monitor_layers.c), and its keys: the next quantity the log has, the cursor.
void monitor_layers(struct monitor *m, struct canvas *c, const struct rect *r);
int monitor_layers_width(const struct monitor *m); // columns that show all in full
void monitor_layers_next(struct monitor *m);
void monitor_layers_move(struct monitor *m, int by);
double monitor_train_x(const struct monitor *m, int64_t i); // of a training record, on the axis

// monitor_view.c: what is shown of the axis. Factors below 1 show less; screens and columns may be
// negative.
void monitor_view_whole(struct monitor *m);
bool monitor_view_is_whole(const struct monitor *m);
void monitor_view_zoom(struct monitor *m, double factor, double now);
void monitor_view_pan(struct monitor *m, double screens);
void monitor_view_cursor(struct monitor *m, int columns, double now); // the first call shows it
void monitor_view_ends(struct monitor *m, bool last, double now);
int monitor_smooth_window(const struct monitor *m); // records, 1 = off
struct plot_series;
// At most `most` points of the smoothed line between two x. Returns how many; y is as in raw.
int monitor_smooth(const struct plot_series *raw, int window, double lo, double hi, double *x,
                   double *y, int most);
// "step 1,200  t 3.412  s 3.401  o 3.39" of the records at x.
void monitor_cursor_words(const struct monitor *m, const struct plot_series *series, int n,
                          double at, char *out, size_t size);
void monitor_sync(struct monitor *m); // brings the summaries up to follow's tables
// Bits per byte of a loss of 1 nat, NaN while no evaluation has said it.
double monitor_bpb_factor(const struct follow *f);
// The largest x of the plan on an axis (tokens, steps, seconds or FLOPs), always above 0.
double monitor_plan_end(const struct follow *f, enum x_axis axis, double now);

#endif
