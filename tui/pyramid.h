// A min/max/mean pyramid over an array of values: level k holds one summary for each 8^(k+1)
// consecutive points, so that any range is answered from O(log n) summaries and no point is ever
// left out of a picture. The array itself belongs to the caller. UI thread only.
#ifndef TUI_PYRAMID_H
#define TUI_PYRAMID_H

#include <stdint.h>

enum { PYRAMID_FAN = 8, PYRAMID_LEVELS = 10 };

// What is known about a range of points. min, max and sum are over the finite ones.
struct span {
    double min, max, sum;
    int64_t n;   // finite points
    int64_t bad; // NaN or infinite points
};

struct pyramid { // zero-initialise
    struct span *level[PYRAMID_LEVELS];
    int64_t cap[PYRAMID_LEVELS];
    int64_t n; // points summarised
};

// Brings the pyramid up to y[0..n). The first `same` values are those of the last call (a run that
// was resumed rewrites its tail). O(n - same) plus a constant.
void pyramid_sync(struct pyramid *p, const double *y, int64_t n, int64_t same);
void pyramid_release(struct pyramid *p);

// Summary of y[a..b). p may be NULL: then the points are walked.
struct span pyramid_span(const struct pyramid *p, const double *y, int64_t a, int64_t b);

#endif
