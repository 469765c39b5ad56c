// What training a profile costs on this machine: tokens/s, time to the planned end, memory.
//
// A prediction times whole training steps of a slice: a real model through the same backend with this
// d_model, vocabulary, micro-batch and sequence length, but with only a few layers. These are the
// corners of the design: its least attention and least FFN, its most attention, its most FFN. The poll
// between the layers (model_set_poll) tells the time of each; a layer of the profile costs what lies
// between the corners at its widths. A step is then
//   micro-batches * (embedding + sum over applied layers + head) + parameters * optimizer
// with every repetition and pass (reuse, block_loops), gates and recomputation as they run. Where one
// step of that would take too long, the slice has fewer sequences, a smaller vocabulary, and at last
// shorter sequences: rows, head and attention then scale with what they were measured at.
//
// Not in the prediction: writing checkpoints, and work that other programs will do meanwhile.
//
// Threads: a job belongs to one thread at a time, which may be any (the workbench gives it one of its
// own); only cost_cancel and cost_progress may be called from others meanwhile. Nothing is shared
// between jobs but the cores: two at once, or one beside a training run, measure each other.
#ifndef ENGINE_COST_H
#define ENGINE_COST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/err.h"
#include "engine/spec.h"

// What holds for the presets that tests/bench_cost.c measures, on the machine where this was written.
#define COST_WITHIN 0.2

struct cost {
    char backend[16], library[64]; // "cpu", what its matrix products run on
    int threads;
    // Bytes of the process: while it steps, and at most (while it writes a checkpoint).
    int64_t memory_step_bytes, memory_bytes;
    double memory_available; // -1 = unknown
    bool fits;               // else why says what is short, and nothing below is set
    char why[400];

    double seconds_per_step, tokens_per_s;
    double embed_s, layers_s, head_s, optim_s; // of one step
    int n_layers;
    double layer_s[SPEC_MAX_LAYERS]; // of layers_s, all repetitions
    double forward_row_s;            // an evaluation, per token
    // Of the planned run, set by cost_plan():
    int64_t steps, tokens;
    int64_t evaluations;     // after the one at the start
    double seconds_per_eval; // NaN when data.val cannot be read and eval.max_tokens does not say
    double seconds_total;    // steps and evaluations

    double calibration_s; // in cost_step, all of it
    int passes;           // training steps of the slice that were timed
    double spread;        // (third - first quartile) / median of them
    double cores;         // that this process got on average while they ran
    int slice_layers, slice_vocab, slice_seq_len;
    int64_t slice_rows, slice_bytes;
};

struct cost_job;

// Plans, but measures nothing yet: any thread, well below a millisecond but for deep models. backend as
// in lathe train ("auto" is the fastest there is). Never NULL; what is wrong cost_step says.
struct cost_job *cost_new(const struct spec *spec, const char *backend);
// The next piece of work, at most about half a second: 1 = there is more, 0 = the result is there
// (also where the model does not fit: nothing is built then), -1 = no such backend, no memory, cancelled.
int cost_step(struct cost_job *j, struct err *err);
void cost_cancel(struct cost_job *j);           // any thread: cost_step returns between two layers
double cost_progress(const struct cost_job *j); // any thread: 0 to 1
const struct cost *cost_result(const struct cost_job *j); // after cost_step returned 0
void cost_free(struct cost_job *j);

// The planned run anew when only its length, data or evaluations changed: nothing is measured. Opens
// data.val for its size. Any thread.
void cost_plan(struct cost *c, const struct spec *spec);

// All of it.
int cost_predict(const struct spec *spec, const char *backend, struct cost *out, struct err *err);

// Real steps of the whole model on random tokens, to judge a prediction by: a trial step between two
// steps of a job meets the same machine. Accumulated micro-batches are timed one by one and counted as
// many as there are. Threads as for a job.
struct cost_measured {
    double seconds_per_step, tokens_per_s;
    int passes;           // micro-batches timed, after one that touches the memory
    double cores;         // that this process got on average meanwhile
    int64_t memory_bytes; // anonymous memory that the model added to the process, -1 = unknown
};
struct cost_trial;

// NULL with the reason. Whether the model fits is cost_result()'s to say: ask first.
struct cost_trial *cost_trial_new(const struct spec *spec, const char *backend, struct err *err);
int cost_trial_step(struct cost_trial *t,
                    struct err *err); // one micro-batch and one update; 0 or -1
void cost_trial_result(const struct cost_trial *t, struct cost_measured *out);
void cost_trial_free(struct cost_trial *t);

// {backend, library, threads, fits, why, memory: {bytes, step_bytes, available_bytes}} and, where it
// fits, {tokens_per_s, seconds_per_step, parts: {embed_s, layers_s, head_s, optim_s}, [layer_s], steps,
// tokens, evaluations, seconds_per_eval, seconds_total, within,
// calibration: {seconds, passes, spread, cores, layers, rows, seq_len, vocab, bytes}}
// null for what is not known; new reference.
json_t *cost_to_json(const struct cost *c);

#endif
