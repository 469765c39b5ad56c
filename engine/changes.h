// What was changed in a run after it began: the peak learning rate and the planned end. The profile
// stays what it was; the list lives in the run's changes.json and, for a copy that is moved alone,
// in every checkpoint. Learning rate and end are pure functions of profile, list and step, so that
// a resumed run repeats what an uninterrupted one did.
//
// lr=X from update `at` on: the whole schedule, warm-up and min_lr included, is multiplied by
// X / optim.lr. Of several the one with the latest `at` that has come counts; of equal ones the
// later in the list.
//
// A new end, asked before update `at`: a cosine goes on from the height it has after update at - 1
// and reaches min_lr at the new end (progress p becomes p + (1 - p) * share of the way to it).
// During the warm-up that stays as it is and the decay is planned anew. What has reached min_lr
// stays there.
#ifndef ENGINE_CHANGES_H
#define ENGINE_CHANGES_H

#include <jansson.h>
#include <stdint.h>

#include "engine/err.h"
#include "engine/spec.h"

enum { CHANGE_WHO_SIZE = 72, MAX_CHANGES = 1000 };

enum change_key { CHANGE_LR, CHANGE_MAX_STEPS, CHANGE_MAX_TOKENS, CHANGE_KEYS };
extern const char *const change_key_names[CHANGE_KEYS]; // "lr", "max_steps", "max_tokens"

struct change {
    enum change_key key;
    double old, value;  // peak learning rates, steps or tokens (whole, below 2^53)
    int64_t end;        // steps; of a new end
    int64_t at;         // first update (from 1) that it concerns
    int64_t asked_step; // completed steps when it was asked for
    double time;        // seconds since 1970
    char who[CHANGE_WHO_SIZE];
};

struct changes { // zero-initialise
    struct change *v;
    int n;
};
void changes_release(struct changes *c);
void changes_add(struct changes *c, const struct change *change);

// Completed steps at the planned end; `end` is the profile's (spec_total_steps).
int64_t changes_end(const struct changes *c, int64_t end);
// Learning rate of update n, the same as optim_lr without changes; and the peak it is scaled to.
double changes_lr(const struct changes *c, const struct optim_spec *s, int64_t end, int64_t n);
double changes_peak(const struct changes *c, const struct optim_spec *s, int64_t n);

// "lr 0.003 -> 0.001 from step 120 on". Returns out.
char *change_to_text(const struct change *c, char *out, size_t size);
json_t *change_to_json(const struct change *c);             // new reference
json_t *changes_to_json(const struct changes *c);           // a list, new reference
int changes_from_json(const json_t *list, struct changes *c); // replaces c; -1: it is no such list

// runs/<id>/changes.json. Reading a missing file gives an empty list and returns 1, a damaged one
// is an error. Writing is atomic and on the disk when it returns.
int changes_read(const char *run_dir, struct changes *c, struct err *err);
int changes_write(const char *run_dir, const struct changes *c, struct err *err);

#endif
