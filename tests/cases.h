// Op cases shared by all backends: which op, sizes, options; how its arrays are filled, and how far
// a result may be from the reference backend. A fixture holds one case's arrays on the host in
// double; it can be run on any backend, as often as wanted.
#ifndef TESTS_CASES_H
#define TESTS_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/backend.h"

enum { CASE_TENSORS = 16, CASE_DIMS = 8 };

// Options of a case.
enum {
    ACC = 1 << 0,         // activation gradient adds
    NO_BIAS = 1 << 1,     // b, db, kbias, dkbias are NULL
    NO_SLOPES = 1 << 2,   // slopes is NULL
    NO_GATE = 1 << 3,     // g and dg are NULL
    NO_PREV = 1 << 4,     // prev is NULL
    NO_DX = 1 << 5,       // dx is NULL
    NO_DW = 1 << 6,       // dw is NULL
    NO_COPY = 1 << 7,     // p_act is NULL
    INTERLEAVED = 1 << 8, // rope
    TANH = 1 << 9,        // gelu
    NO_GRAD = 1 << 10,    // softmax_xent only measures
    NO_LOGG = 1 << 11,    // dlogg is NULL
};

struct op_case {
    const char *op;
    int dim[CASE_DIMS];
    unsigned flags;
};

extern const struct op_case op_cases[];
extern const int op_cases_count;

enum tensor_kind { ACT, F32, I32 };
enum tensor_role { IN, OUT, INOUT }; // OUT starts as NaN: what is not assigned is seen

struct tensor {
    const char *name;
    enum tensor_kind kind;
    enum tensor_role role;
    int64_t n;
    bool is_null;
    double *before, *after; // (n) host values
    void *block, *dev;      // device memory with guards around dev, while a run lasts
};

struct fixture {
    const struct op_case *c;
    struct tensor t[CASE_TENSORS];
    int count;
};

// Fills a fixture. Values depend on the case and the tensor's name only; those of a backward op
// (statistics, outputs) come from running its forward on `ref`. With `rounded` every value is one
// that a float holds.
void fixture_init(struct fixture *f, const struct op_case *c, struct backend *ref, bool rounded);
void fixture_release(struct fixture *f);

// Runs the op from `before` to `after`. Fails the test when a guard or an input changed.
void fixture_run(struct fixture *f, struct backend *be);

// What cases.c knows of the op of f->c: its arrays, and its call with the arrays' device pointers.
void case_setup(struct fixture *f);
void case_call(struct fixture *f, struct backend *be);

struct tensor *fixture_tensor(struct fixture *f, const char *name); // NULL if there is none

// Largest errors over the outputs of `got` against `want`: rms over rms, max over rms.
struct op_error {
    double rms, max;
    const char *where;
};
struct op_error fixture_compare(const struct fixture *got, const struct fixture *want);

// The fixture of the forward op whose backward `c` is, with the same sizes. False if `c` is none.
bool fixture_forward_of(struct fixture *f, const struct op_case *c, struct op_case *storage);

// Limits on op_error.rms and .max of a float backend; above `warn` the error is printed.
struct op_limit {
    const char *op;
    double warn, pass, pass_max;
};
const struct op_limit *op_limit(const char *op);

#endif
