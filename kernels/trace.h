// A backend that passes every op to another one and keeps count: calls, time and bytes per op,
// and which op first wrote something that is not finite. Same threading rule as any backend.
// Time is that of the call; on a device that works asynchronously it is the time to enqueue.
#ifndef KERNELS_TRACE_H
#define KERNELS_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/backend.h"

struct trace_row {
    uint64_t calls, ns;
    uint64_t bytes; // of the arrays the op must read and write once
};

struct trace_bad {
    const char *op;     // NULL while everything was finite
    const char *output; // its argument, e.g. "dx"
    uint64_t call;      // counted over all ops since trace_open, from 1
};

// Takes `inner`: closing the returned backend closes it too. With check_finite every output of
// every op is read again, which costs about as much as a cheap op. NULL when memory is short.
struct backend *trace_open(struct backend *inner, bool check_finite);

const struct trace_row *trace_row(const struct backend *be, int op); // op < OPS_COUNT
struct trace_bad trace_first_bad(const struct backend *be);
void trace_reset(struct backend *be); // all counts to zero, first bad op forgotten

#endif
