// Follows one run from its directory: the newest status and the metric series in memory. Reads
// only; it works on a run of this machine, of another one on a shared file system, or on one that
// ended long ago. One thread at a time.
//
// A poll costs what is new: two small files are looked at when nothing changed. Series are arrays
// of doubles in rising order of step, so a million records are 9 x 8 MB. After a resume the run
// repeats the steps since its checkpoint; the later line of a step wins. Arrays with a value per
// layer are thinned out when there are very many (layer_log.h), these columns never are.
#ifndef ENGINE_FOLLOW_H
#define ENGINE_FOLLOW_H

#include <stdbool.h>

#include "engine/layer_log.h"
#include "engine/run.h"
#include "engine/runlog.h"

enum follow_train_column {
    TRAIN_STEP,
    TRAIN_TOKENS,
    TRAIN_TIME, // seconds since 1970
    TRAIN_LOSS,
    TRAIN_LR,
    TRAIN_GRAD_NORM,
    TRAIN_TOKENS_PER_S,
    TRAIN_MFU, // 0..1
    TRAIN_FLOPS,
    TRAIN_COLUMNS
};

enum follow_eval_column {
    EVAL_STEP,
    EVAL_TOKENS,
    EVAL_TIME,
    EVAL_LOSS,
    EVAL_PPL,
    EVAL_BPB,
    EVAL_VAL_TOKENS, // scored by this evaluation
    EVAL_FLOPS,
    EVAL_SPARSITY, // mean over layers of the share of gates that are 0, 0..1
    EVAL_REG,      // the regulariser's part of the loss
    EVAL_COLUMNS
};

enum { FOLLOW_MAX_COLUMNS = 10, FOLLOW_MAX_EVENTS = 1000 };

// n rows; column c of row i is col[c][i]. Unknown values are NaN.
struct follow_table {
    double *col[FOLLOW_MAX_COLUMNS];
    int n, cap, columns;
    int dirty; // first row that changed since a reader last set this to n
};

struct follow_event {
    int64_t step, tokens;
    double time;
    char kind[16];  // start resume pause hold checkpoint stop failed done command set change
    char text[240]; // "" when there is none
};

struct follow {
    char dir[512];
    struct run_status status; // newest that could be read; run_status_init() values before that
    bool has_status;
    char problem[512]; // why the status or the log cannot be read at present, or ""
    struct follow_table train, eval;
    struct layer_log train_layers, eval_layers;
    struct follow_event *event; // the newest FOLLOW_MAX_EVENTS, oldest first
    int n_events;
    bool behind; // the log holds more than the last poll read: poll again soon
    int bad;     // lines and stretches of the log that could not be read
    struct runlog_reader reader;
};

void follow_init(struct follow *f, const char *run_dir); // at most 511 bytes
// Reads what is new, at most about 20,000 log lines (then `behind` is set), so that a caller with a
// screen to draw stays responsive. Returns true when anything but the heartbeat changed.
bool follow_poll(struct follow *f);
void follow_release(struct follow *f);

// Index of the last row with step <= `step`, -1 if there is none.
int follow_find(const struct follow_table *t, double step);

#endif
