// Runs of the trainer on a tiny byte model for tests: data, profile, start and end, and what the log
// says afterwards.
#ifndef TESTS_TRAINING_H
#define TESTS_TRAINING_H

#include "engine/run.h"
#include "engine/runlog.h"
#include "engine/spec.h"
#include "engine/trainer.h"

struct training {
    char dir[256];
    struct runlog *log;
    struct trainer *t;
    struct run_status st;
    json_t *lines; // of the whole log, after the end
};

// Sentences of a few words as bytes; the seed picks them.
void training_write_shard(const char *path, uint64_t seed, int documents);
// A group setup: writes train.bin and val.bin to t_dir().
int training_write_data(void **state);
// Two layers of width 32 on those data, 60 steps of two micro-batches of 4 x 32 tokens.
struct spec training_spec(void);

// Starts a trainer, or goes on with one, in t_dir()/name.
void training_start(struct training *r, const char *name, const struct spec *s);
const struct run_status *training_status(struct training *r);
void training_end(struct training *r); // waits for its end and reads its log
void training_release(struct training *r);

// The last value of a metric logged for a step; NaN when there is none or it is null.
double training_metric(const struct training *r, int64_t step, const char *name);
// The last record of a step with this member (borrowed), NULL when there is none.
const json_t *training_record(const struct training *r, int64_t step, const char *name);
const char *training_event(const struct training *r, const char *event);
void training_assert_contains(const char *text, const char *part); // or fails

#endif
