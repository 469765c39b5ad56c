// Starting a run from a design, and continuing one: what will be run, the question, and the process
// of its own that trains it. UI thread only; the start itself waits on another thread.
#ifndef TUI_LAUNCH_H
#define TUI_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/count.h"
#include "engine/run.h"
#include "engine/spec.h"

struct app;
struct launch;

void launch_ask(struct app *app); // the question for the present design
// Continues a run that has ended early, or says why not; asks when another machine may host it.
void launch_resume(struct app *app, const char *dir, const struct run_status *st);
bool launch_poll(struct app *app); // true when the message line changed
bool launch_busy(const struct app *app);
const char *launch_id(const struct app *app); // of the run that was started last
void launch_free(struct launch *l);           // waits for a start that is under way; NULL is fine

// What a run of spec would be, in lines; here says what it costs on this machine ("" = not measured),
// run_dir is where it goes, path the file that holds just
// this profile ("" = none does), saved the profile that the changes are against.
void launch_describe(const struct spec *spec, const struct spec *saved, const struct count *count,
                     const char *here, const char *path, const char *run_dir, char *out, size_t size);

#endif
