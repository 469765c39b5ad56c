// What training the design would cost here: a cost job on a thread of its own, while the workbench
// goes on. One at a time. UI thread only.
#ifndef TUI_ESTIMATE_H
#define TUI_ESTIMATE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/cost.h"

struct app;
struct estimate;

void estimate_toggle(struct app *app);     // measures the present design, or stops measuring
bool estimate_poll(struct app *app);       // true when there is something new to show
bool estimate_busy(const struct app *app);
void estimate_free(struct estimate *e);    // stops what is under way; NULL is fine

// Of the present design: "6,430 tokens/s  run 11m40s  memory 255MiB of 22.3GiB  cpu, 2 threads",
// progress while it is measured, or how to measure. False when it is of another state of the design
// or of none. out is filled in any case.
bool estimate_words(const struct app *app, char *out, size_t size);

#endif
