// All runs below runs_dir(), kept in memory: a poll reads again only what changed on disk (status
// of live runs each time, the others by their file's time, a part of them per poll), so that a
// thousand runs cost little. UI thread only.
#ifndef TUI_RUNS_INDEX_H
#define TUI_RUNS_INDEX_H

#include <time.h>

#include "engine/run.h"

struct runs_entry {
    struct run_status status;
    struct timespec mtime; // of status.json when it was read
    bool seen;             // in the last listing
    bool shape_tried;
    int n_layers; // of the profile, 0 = not read or not readable
    int ffn_width[SPEC_MAX_LAYERS];
};

enum runs_sort { SORT_AGE, SORT_STATE, SORT_RUN, SORT_PROGRESS, SORT_PPL, SORT_PARAMS, SORT_COUNT };

struct runs_index {            // zero-initialise
    struct runs_entry **entry; // in the order shown
    int n, cap;
    enum runs_sort sort;
    struct timespec dir_mtime;
    double listed;  // when the names were read
    long reads;     // status files read so far
    int next_check; // round-robin over runs that have ended
    char problem[512];
};

// Returns true when anything a reader could see changed. New runs are put where they belong;
// others keep their places until runs_index_sort(), so rows never move by themselves.
bool runs_index_poll(struct runs_index *x);
void runs_index_sort(struct runs_index *x, enum runs_sort by);
const char *runs_sort_name(enum runs_sort by);
int runs_index_find(const struct runs_index *x, const char *id); // -1 if gone
void runs_index_dir(const struct runs_entry *e, char *dir, size_t size);
void runs_index_shape(struct runs_entry *e); // reads the profile once, when its row is shown
void runs_index_release(struct runs_index *x);

#endif
