#include "tui/runs_index.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/buf.h"

enum { CHECKS_PER_POLL = 100 };
static const double relist_seconds = 5; // a directory's time may be too coarse to show a change

static const char *const sort_names[SORT_COUNT] = {"age",      "state",   "run",
                                                   "progress", "val ppl", "params"};

const char *runs_sort_name(enum runs_sort by)
{
    return sort_names[by];
}

void runs_index_dir(const struct runs_entry *e, char *dir, size_t size)
{
    snprintf(dir, size, "%s/%s", runs_dir(), e->status.id);
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static struct timespec status_time(const struct runs_entry *e)
{
    char path[1024];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s/status.json", runs_dir(), e->status.id);
    return stat(path, &st) == 0 ? st.st_mtim : (struct timespec){0, 0};
}

// ---- one run ------------------------------------------------------------------------------------

static bool read_entry(struct runs_entry *e, struct timespec mtime)
{
    struct run_status old = e->status, now;
    struct err err = ERR_INIT;
    char dir[1024];

    runs_index_dir(e, dir, sizeof(dir));
    if (run_read_status(dir, &now, &err) < 0) {
        run_status_init(&now);
        now.state = RUN_FAILED;
        now.started = (double)mtime.tv_sec;
        err_format(&err, now.reason, sizeof(now.reason));
    }
    snprintf(now.id, sizeof(now.id), "%s", old.id);
    e->status = now;
    e->mtime = mtime;
    old.heartbeat = now.heartbeat;
    return memcmp(&old, &now, sizeof(now)) != 0;
}

static bool check_entry(struct runs_entry *e)
{
    struct timespec mtime = status_time(e);

    // a live run may turn out lost without a change of its file
    if (same_time(mtime, e->mtime) && !run_state_is_live(e->status.state))
        return false;
    return read_entry(e, mtime);
}

void runs_index_shape(struct runs_entry *e)
{
    struct err err = ERR_INIT;
    struct spec *spec;
    char dir[1024];

    if (e->shape_tried)
        return;
    e->shape_tried = true;
    spec = xcalloc(1, sizeof(*spec));
    runs_index_dir(e, dir, sizeof(dir));
    if (run_load_profile(dir, spec, &err) == 0) {
        e->n_layers = spec->model.n_layers;
        memcpy(e->ffn_width, spec->model.lane[LANE_FFN], sizeof(e->ffn_width));
    }
    free(spec);
}

// ---- order --------------------------------------------------------------------------------------

static int by_number(double a, double b) // ascending, unknown last
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return a < b ? -1 : a > b;
}

static double progress(const struct run_status *st)
{
    return st->total_steps > 0 ? (double)st->step / (double)st->total_steps : NAN;
}

// What needs attention first: live, then what went wrong, then what ended well.
static int state_rank(enum run_state s)
{
    static const int rank[] = {
        [RUN_RUNNING] = 0, [RUN_STARTING] = 1, [RUN_PAUSED] = 2, [RUN_FAILED] = 3,
        [RUN_LOST] = 4,    [RUN_STOPPED] = 5,  [RUN_NEW] = 6,    [RUN_DONE] = 7};

    return rank[s];
}

static int compare_by(enum runs_sort by, const struct run_status *a, const struct run_status *b)
{
    switch (by) {
    case SORT_STATE:
        return state_rank(a->state) - state_rank(b->state);
    case SORT_PROGRESS:
        return by_number(-progress(a), -progress(b));
    case SORT_PPL:
        return by_number(a->val_ppl, b->val_ppl);
    case SORT_PARAMS:
        return by_number(-(double)a->params, -(double)b->params);
    case SORT_RUN:
        return strcmp(a->id, b->id);
    default:
        return 0;
    }
}

static enum runs_sort sorting; // qsort has no argument; UI thread only

static int compare(const void *pa, const void *pb)
{
    const struct run_status *a = &(*(struct runs_entry *const *)pa)->status;
    const struct run_status *b = &(*(struct runs_entry *const *)pb)->status;
    int order = compare_by(sorting, a, b);

    if (order == 0)
        order = by_number(-a->started, -b->started);
    return order ? order : strcmp(a->id, b->id);
}

void runs_index_sort(struct runs_index *x, enum runs_sort by)
{
    x->sort = sorting = by;
    if (x->n > 1)
        qsort(x->entry, (size_t)x->n, sizeof(struct runs_entry *), compare);
}

int runs_index_find(const struct runs_index *x, const char *id)
{
    for (int i = 0; i < x->n; i++)
        if (!strcmp(x->entry[i]->status.id, id))
            return i;
    return -1;
}

// ---- the listing --------------------------------------------------------------------------------

static int by_id(const void *pa, const void *pb)
{
    return strcmp((*(struct runs_entry *const *)pa)->status.id,
                  (*(struct runs_entry *const *)pb)->status.id);
}

static struct runs_entry *known(struct runs_entry *const *sorted, int n, const char *name)
{
    int lo = 0, hi = n;

    while (lo < hi) {
        int mid = (lo + hi) / 2, order = strcmp(name, sorted[mid]->status.id);

        if (order == 0)
            return sorted[mid];
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

// Puts a new run where the order wants it, without moving the others against each other.
static void insert(struct runs_index *x, struct runs_entry *e)
{
    int at = 0;

    sorting = x->sort;
    while (at < x->n && compare(&x->entry[at], &e) <= 0)
        at++;
    if (x->n == x->cap) {
        x->cap = x->cap ? x->cap * 2 : 64;
        x->entry = xrealloc(x->entry, (size_t)x->cap, sizeof(struct runs_entry *));
    }
    memmove(x->entry + at + 1, x->entry + at, (size_t)(x->n - at) * sizeof(struct runs_entry *));
    x->entry[at] = e;
    x->n++;
}

static bool is_run(const char *name)
{
    char path[1024];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", runs_dir(), name);
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void add_name(struct runs_index *x, const char *name)
{
    struct runs_entry *e = xcalloc(1, sizeof(*e));

    snprintf(e->status.id, sizeof(e->status.id), "%s", name);
    read_entry(e, status_time(e));
    e->seen = true;
    insert(x, e);
}

static bool drop_vanished(struct runs_index *x)
{
    int kept = 0, n = x->n;

    for (int i = 0; i < n; i++) {
        if (x->entry[i]->seen)
            x->entry[kept++] = x->entry[i];
        else
            free(x->entry[i]);
    }
    x->n = kept;
    return kept != n;
}

static bool list_names(struct runs_index *x)
{
    DIR *d = opendir(runs_dir());
    struct runs_entry **sorted = NULL;
    int n = x->n;
    bool changed = false;
    struct dirent *de;

    x->problem[0] = '\0';
    if (!d && errno != ENOENT)
        snprintf(x->problem, sizeof(x->problem), "cannot read '%.200s': %s", runs_dir(),
                 strerror(errno));
    if (n > 0) {
        sorted = xcalloc((size_t)n, sizeof(struct runs_entry *));
        memcpy(sorted, x->entry, (size_t)n * sizeof(struct runs_entry *));
        qsort(sorted, (size_t)n, sizeof(struct runs_entry *), by_id);
    }
    for (int i = 0; i < n; i++)
        x->entry[i]->seen = false;
    while (d && (de = readdir(d))) {
        struct runs_entry *e = known(sorted, n, de->d_name);

        if (e) {
            e->seen = true;
        } else if (de->d_name[0] != '.' && strlen(de->d_name) < 64 && is_run(de->d_name)) {
            add_name(x, de->d_name);
            changed = true;
        }
    }
    if (d)
        closedir(d);
    free(sorted);
    return drop_vanished(x) || changed;
}

static bool list_if_needed(struct runs_index *x)
{
    struct stat st;
    double now = run_now();
    struct timespec mtime = stat(runs_dir(), &st) == 0 ? st.st_mtim : (struct timespec){0, 0};

    if (x->listed > 0 && same_time(mtime, x->dir_mtime) && now - x->listed < relist_seconds)
        return false;
    x->dir_mtime = mtime;
    x->listed = now;
    return list_names(x);
}

bool runs_index_poll(struct runs_index *x)
{
    bool changed = list_if_needed(x);
    int checks = x->n < CHECKS_PER_POLL ? x->n : CHECKS_PER_POLL;

    for (int i = 0; i < x->n; i++)
        if (run_state_is_live(x->entry[i]->status.state))
            changed |= check_entry(x->entry[i]);
    for (int k = 0; k < checks; k++) {
        x->next_check = (x->next_check + 1) % x->n;
        if (!run_state_is_live(x->entry[x->next_check]->status.state))
            changed |= check_entry(x->entry[x->next_check]);
    }
    return changed;
}

void runs_index_release(struct runs_index *x)
{
    for (int i = 0; i < x->n; i++)
        free(x->entry[i]);
    free(x->entry);
    *x = (struct runs_index){.n = 0};
}
