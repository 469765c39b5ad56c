// Every view of the real program, with the keys that change its picture: for bench_keys, which times
// them, and t_work, which counts what they take.
#ifndef TESTS_KEY_VIEWS_H
#define TESTS_KEY_VIEWS_H

#include <stdbool.h>

#include "tests/pty.h"

struct key_view {
    const char *name;
    bool on_run;             // opened on a run, else on the profile
    const char *open;        // keys that lead to it
    const char *shows;       // then on the screen
    const char *const *keys; // that change the picture, in turn
};
extern const struct key_view key_views[];
extern const int key_view_count;

void key_views_profile(const char *path, int n_layers); // a profile of so many layers
// Runs of it in the runs directory; the first, "bench<layers>-1", has a record of every layer.
void key_views_runs(const char *profile, int n_layers);
void key_view_open(struct pty *p, const struct key_view *v);

#endif
