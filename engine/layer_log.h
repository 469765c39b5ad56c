// The per-layer arrays of a run's log as series in memory, one value per layer. Bounded: at most
// LAYER_LOG_ROWS records are kept. When they are full, every second one goes and from then on only
// every second record (then every fourth, …) stays, so the rows lie evenly over the whole run; the
// newest record is always there, in full. One thread at a time.
//
// The number of layers is that of the first array seen. Arrays of another length, and values that
// are no numbers, are unknown (NaN). Values are floats: enough for pictures and verdicts.
#ifndef ENGINE_LAYER_LOG_H
#define ENGINE_LAYER_LOG_H

#include <jansson.h>

enum layer_array {
    LAYER_MEAN,     // of the gates
    LAYER_VAR,      //
    LAYER_SPARSITY, // share of tokens with a gate of 0
    LAYER_CLOSED,   // share whose gate unit is shut: no gradient
    LAYER_OVER,     // share whose accumulator exceeds 1: no gradient either
    LAYER_ALPHA,    // coefficients of the regulariser
    LAYER_BETA,     //
    LAYER_NORM,     // of the residual stream
    LAYER_ARRAYS
};

enum { LAYER_LOG_ROWS = 2048 };

struct layer_log {              // zero-initialise
    int layers;                 // 0 while no array was seen
    int n;                      // rows, in rising order of step
    double *step;               // n
    float *value[LAYER_ARRAYS]; // (n, layers); NULL when the log has no such array
    int cap;
    int every; // records that share a row
    int since; // the last row's distance in records from the last that stays, 0 = it stays
};

// Takes the arrays of one record; later lines for a step win, and so do those of earlier steps: a
// resumed run went another way from there. Returns the number of arrays that could not be used.
int layer_log_add(struct layer_log *l, double step, const json_t *line);
void layer_log_release(struct layer_log *l);

// Value of a layer in a row, the newest for row n-1; NaN when there is none.
double layer_log_value(const struct layer_log *l, enum layer_array which, int row, int layer);
// Mean over the layers that are known, NaN when none is.
double layer_log_mean(const struct layer_log *l, enum layer_array which, int row);

#endif
