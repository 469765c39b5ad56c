// The Runs screen: the table, and below it what is known of the run under the cursor.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/buf.h"
#include "tui/run_words.h"
#include "tui/runs_state.h"
#include "tui/wrap.h"

// seven of eight levels: a full block would grow together with the row above
enum { DETAIL_MIN_ROWS = 18, DETAIL_COLS = 46, SHAPE_LEVELS = 7 };

enum column {
    COL_STATE,
    COL_RUN,
    COL_WIDTHS,
    COL_PARAMS,
    COL_PROGRESS,
    COL_TOKENS,
    COL_PPL,
    COL_OVER,
    COL_BPB,
    COL_AGE,
    COL_COUNT
};

static const struct list_column columns[COL_COUNT] = {
    [COL_STATE] = {"  state", 10, 0, 0, false},
    [COL_RUN] = {"run", 12, 32, 0, false},
    [COL_WIDTHS] = {"ffn widths", 10, 36, 4, false},
    [COL_PARAMS] = {"params", 7, 0, 3, true},
    [COL_PROGRESS] = {"done", 5, 0, 1, true},
    [COL_TOKENS] = {"tokens", 13, 0, 5, true},
    [COL_PPL] = {"val ppl", 7, 0, 1, true},
    [COL_OVER] = {"over", 6, 0, 6, true},
    [COL_BPB] = {"bpb", 6, 0, 3, true},
    [COL_AGE] = {"age", 11, 0, 2, true},
};

void runs_shape_text(const int *ffn_width, int n_layers, int width, bool utf8, char *out,
                     size_t size)
{
    static const char *const blocks[SHAPE_LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇"};
    static const char *const ascii[SHAPE_LEVELS] = {".", ":", "-", "=", "+", "*", "#"};
    int bars = n_layers < width ? n_layers : width, top = 1;
    size_t used = 0;

    out[0] = '\0';
    for (int i = 0; i < n_layers; i++)
        top = ffn_width[i] > top ? ffn_width[i] : top;
    for (int b = 0; b < bars; b++) {
        int largest = 0, level;

        for (int i = b * n_layers / bars; i < (b + 1) * n_layers / bars; i++)
            largest = ffn_width[i] > largest ? ffn_width[i] : largest;
        level = (int)lround((double)SHAPE_LEVELS * largest / top) - 1;
        level = level < 0 ? 0 : level;
        used +=
            (size_t)snprintf(out + used, size - used, "%s", utf8 ? blocks[level] : ascii[level]);
        if (used >= size)
            break;
    }
}

struct drawing {
    struct runs_view *view;
    double now;
    bool utf8;
};

static void age_text(const struct run_status *st, double now, char *out, size_t size)
{
    char word[WORD_SIZE];

    if (run_state_is_live(st->state) && isfinite(st->eta_s) && st->state != RUN_PAUSED)
        snprintf(out, size, "%s left", unit_duration(word, st->eta_s));
    else if (st->state == RUN_LOST)
        snprintf(out, size, "silent %s", word_age(word, now - st->heartbeat));
    else
        snprintf(
            out, size, "%s",
            word_age(word, now - (isfinite(st->heartbeat) && st->heartbeat > 0 ? st->heartbeat
                                                                               : st->started)));
}

static void tokens_text(const struct run_status *st, char *out, size_t size)
{
    char a[WORD_SIZE], b[WORD_SIZE];

    snprintf(out, size, "%s/%s", word_count(a, (double)st->tokens),
             st->total_tokens > 0 ? word_count(b, (double)st->total_tokens) : "—");
}

static double done(const struct run_status *st)
{
    return st->total_steps > 0 ? (double)st->step / (double)st->total_steps : NAN;
}

static void cell(void *user, int row, int column, int width, char *out, size_t size,
                 enum role *role)
{
    const struct drawing *d = user;
    struct runs_entry *e = d->view->index.entry[row];
    const struct run_status *st = &e->status;
    char word[WORD_SIZE] = "";

    switch ((enum column)column) {
    case COL_STATE:
        *role = run_role(st->state);
        snprintf(out, size, "%c %s", run_mark(st->state), run_state_name(st->state));
        return;
    case COL_RUN:
        snprintf(out, size, "%s", st->id);
        return;
    case COL_WIDTHS:
        *role = ROLE_BAR;
        runs_index_shape(e);
        runs_shape_text(e->ffn_width, e->n_layers, width, d->utf8, out, size);
        return;
    case COL_PARAMS:
        snprintf(out, size, "%s", st->params > 0 ? word_count(word, (double)st->params) : "—");
        return;
    case COL_PROGRESS:
        snprintf(out, size, "%s", word_percent(word, done(st)));
        return;
    case COL_TOKENS:
        tokens_text(st, out, size);
        return;
    case COL_PPL:
        snprintf(out, size, "%s", word_ppl(word, st->val_ppl));
        return;
    case COL_OVER:
        snprintf(out, size, "%s",
                 st->val_tokens > 0 ? word_count(word, (double)st->val_tokens) : "—");
        return;
    case COL_BPB:
        snprintf(out, size, "%s", word_number(word, st->val_bpb, 3));
        return;
    case COL_AGE:
        age_text(st, d->now, out, size);
        return;
    case COL_COUNT:
        break;
    }
    BUG("column %d of the runs table", column);
}

// ---- heading ------------------------------------------------------------------------------------

static void draw_heading(const struct runs_view *v, struct canvas *c, const struct rect *r)
{
    static const enum run_state shown[] = {RUN_RUNNING, RUN_PAUSED, RUN_FAILED, RUN_LOST};
    char text[WORD_SIZE];
    int col = 1;

    col += canvas_fmt(c, r, 0, col, ROLE_TEXT, "%d run%s", v->index.n, v->index.n == 1 ? "" : "s");
    for (size_t k = 0; k < sizeof(shown) / sizeof(shown[0]); k++) {
        int n = 0;

        for (int i = 0; i < v->index.n; i++)
            n += v->index.entry[i]->status.state == shown[k];
        if (n > 0)
            col += 2 + canvas_fmt(c, r, 0, col + 2, run_role(shown[k]), "%d %s", n,
                                  run_state_name(shown[k]));
    }
    snprintf(text, sizeof(text), "sorted by %s", runs_sort_name(v->index.sort));
    if (r->cols - col <= (int)strlen(text) + 2)
        return;
    canvas_right(c, r, 0, r->cols - 2, ROLE_DIM, text);
    if (r->cols - col > (int)(strlen(text) + strlen(runs_dir())) + 8)
        canvas_fmt(c, r, 0, col, ROLE_DIM, "  in %s", runs_dir());
}

// ---- detail -------------------------------------------------------------------------------------

static const char *next_keys(enum run_state s)
{
    switch (s) {
    case RUN_STOPPED:
    case RUN_FAILED:
    case RUN_LOST:
        return "R continues, E edits the profile, D deletes";
    case RUN_NEW:
        return "R starts, E edits the profile, D deletes";
    case RUN_DONE:
        return "E edits the profile as a new one, D deletes";
    default:
        return "Enter watches it";
    }
}

static void draw_facts(const struct run_status *st, struct canvas *c, const struct rect *r)
{
    char a[WORD_SIZE], b[WORD_SIZE], step[UNIT_SIZE], text[200];
    int row = 0;

    canvas_fmt(c, r, row, 0, run_role(st->state), "%c %s %s", run_mark(st->state), st->id,
               run_state_name(st->state));
    row++;
    row +=
        wrap_text(c, r, row, r->rows, st->state == RUN_FAILED ? ROLE_ERROR : ROLE_WARN, st->reason);
    snprintf(text, sizeof(text), "step %s of %s, checkpoint %s", unit_thousands(step, st->step),
             st->total_steps > 0 ? unit_thousands(a, st->total_steps) : "—",
             st->checkpoint_step >= 0 ? unit_thousands(b, st->checkpoint_step) : "none");
    row += wrap_text(c, r, row, r->rows, ROLE_TEXT, text);
    if (isfinite(st->val_ppl)) {
        snprintf(text, sizeof(text), "val ppl %s over %s tokens, best %s", word_ppl(a, st->val_ppl),
                 unit_thousands(step, st->val_tokens), word_ppl(b, exp(st->best_val_loss)));
        row += wrap_text(c, r, row, r->rows, ROLE_TEXT, text);
    }
    row += wrap_text(c, r, row, r->rows, ROLE_DIM, next_keys(st->state));
}

static void draw_detail(struct runs_view *v, struct canvas *c, const struct rect *r, double now)
{
    const struct runs_entry *e = runs_selected(v);
    struct rect left = {r->row + 1, r->col + 1, r->rows - 1, r->cols - 2};
    struct rect right = left;

    canvas_hline(c, r, 0, ROLE_DIM);
    if (r->cols >= 2 * DETAIL_COLS - 16) {
        left.cols = DETAIL_COLS;
        right.col = left.col + left.cols + 2;
        right.cols = r->col + r->cols - 1 - right.col;
        if (v->detail.open && !strcmp(v->detail.follow.status.id, e->status.id)) {
            monitor_sync(&v->detail);
            monitor_chart(&v->detail, c, &right, CHART_PPL, now);
        }
    }
    draw_facts(&e->status, c, &left);
}

static void draw_none(const struct runs_view *v, struct canvas *c, const struct rect *r)
{
    int row = r->rows / 3;

    if (v->index.problem[0]) {
        canvas_text(c, r, row, 2, ROLE_ERROR, v->index.problem);
        return;
    }
    canvas_text(c, r, row, 2, ROLE_TEXT, "No runs yet. Enter in 1 Design starts one, or:");
    canvas_text(c, r, row + 1, 2, ROLE_TITLE, "lathe train profiles/demo/crown.yaml");
    canvas_fmt(c, r, row + 3, 2, ROLE_DIM, "Runs are kept in '%s'.", runs_dir());
}

void runs_draw(struct runs_view *v, struct canvas *c, const struct rect *body, double now)
{
    struct drawing d = {v, now, c->utf8};
    int detail = body->rows >= DETAIL_MIN_ROWS ? (body->rows - 2) / 3 + 1 : 0;
    struct rect table = {body->row + 1, body->col, body->rows - 1 - detail, body->cols};
    struct rect below = {table.row + table.rows, body->col, detail, body->cols};

    if (v->index.n == 0) {
        draw_none(v, c, body);
        return;
    }
    draw_heading(v, c, body);
    if (body->cols > 60) {
        table.col++;
        table.cols -= 2;
    }
    list_draw(&v->list, c, &table, columns, COL_COUNT, cell, &d);
    if (detail > 0)
        draw_detail(v, c, &below, now);
}
