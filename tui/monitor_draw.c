// The Monitor screen's words: header, numbers, events, and where each part stands at which size.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/buf.h"
#include "tui/monitor_state.h"
#include "tui/run_words.h"
#include "tui/wrap.h"

enum {
    PANEL_COLS = 31,   // the numbers beside the chart
    COMPACT_ROWS = 14, // below: two lines and the chart
    COMPACT_COLS = 64, //
    GRID_COLS = 150,   // from here on: four charts
    GRID_ROWS = 40,    //
    STACK_ROWS = 34,   // from here on: two small charts below the large one
};

static const char *upper(char *out, const char *word)
{
    int i = 0;

    for (; word[i] && i < 15; i++)
        out[i] = word[i] >= 'a' && word[i] <= 'z' ? (char)(word[i] - 32) : word[i];
    out[i] = '\0';
    return out;
}

static double progress(const struct run_status *st)
{
    if (st->total_steps <= 0)
        return NAN;
    return (double)st->step / (double)st->total_steps;
}

static char *whole_seconds(char *out, double s)
{
    if (s < 60)
        snprintf(out, UNIT_SIZE, "%.0f s", floor(s));
    else
        unit_duration(out, floor(s));
    return out;
}

void monitor_heartbeat(const struct monitor *m, double now, char *out, size_t size, enum role *role)
{
    const struct run_status *st = &m->follow.status;
    double period = st->heartbeat_period > 0 ? st->heartbeat_period : 2;
    double age = now - st->heartbeat;
    char word[UNIT_SIZE];

    *role = ROLE_DIM;
    out[0] = '\0';
    if (run_state_is_live(st->state) && age > 2.5 * period) {
        *role = ROLE_WARN;
        snprintf(out, size, "no news for %s (expected every %.0f s)", whole_seconds(word, age),
                 period);
    } else if (run_state_is_live(st->state)) {
        snprintf(out, size, "live");
    }
}

// Of a run that has ended the last moment says little: the mean of all its training does.
static bool is_mean(const struct run_status *st)
{
    return !run_state_is_live(st->state) && st->elapsed_s > 0 && st->tokens > 0;
}

static double speed(const struct run_status *st)
{
    return is_mean(st) ? (double)st->tokens / st->elapsed_s : st->tokens_per_s;
}

static void speed_text(const struct run_status *st, char *out, size_t size)
{
    char number[WORD_SIZE];

    snprintf(out, size, "%s tok/s%s", word_count(number, speed(st)), is_mean(st) ? " mean" : "");
}

// ---- header -------------------------------------------------------------------------------------

static void draw_bar(struct canvas *c, const struct rect *r, int row, int col, int width, double f)
{
    int full = isfinite(f) ? (int)(f * width + 0.5) : 0;

    for (int i = 0; i < width; i++)
        canvas_put(c, r, row, col + i, i < full ? ROLE_BAR : ROLE_DIM, i < full ? 0x2588 : 0xb7);
}

static int draw_state(const struct monitor *m, struct canvas *c, const struct rect *r, int col)
{
    const struct run_status *st = &m->follow.status;
    char word[16], phase[80] = "";

    col += canvas_fmt(c, r, 0, col, run_role(st->state), "%c %s", run_mark(st->state),
                      upper(word, run_state_name(st->state)));
    // what it is doing, when that is not simply stepping
    if (run_state_is_live(st->state) && st->phase[0] && strcmp(st->phase, "step"))
        snprintf(phase, sizeof(phase), " (%s)", st->phase);
    return col + canvas_text(c, r, 0, col, ROLE_TEXT, phase);
}

static void draw_header_top(struct monitor *m, struct canvas *c, const struct rect *r)
{
    const struct run_status *st = &m->follow.status;
    char step[UNIT_SIZE], total[UNIT_SIZE], share[WORD_SIZE], place[32] = "";
    int col = 1, end = r->cols - 1;

    col += canvas_text(c, r, 0, col, ROLE_TITLE, st->id) + 2;
    col = draw_state(m, c, r, col) + 2;
    col += canvas_fmt(c, r, 0, col, ROLE_TEXT, "step %s / %s", unit_thousands(step, st->step),
                      st->total_steps > 0 ? unit_thousands(total, st->total_steps) : "—");
    if (m->n_runs > 1)
        snprintf(place, sizeof(place), "run %d of %d", m->run_index + 1, m->n_runs);
    if (end - col > (int)strlen(place) + 2) {
        canvas_right(c, r, 0, end - 1, ROLE_DIM, place);
        end -= (int)strlen(place) + (place[0] ? 2 : 0);
    }
    if (end - col >= 16) {
        int width = end - col - 9 < 40 ? end - col - 9 : 40;

        draw_bar(c, r, 0, col + 2, width, progress(st));
        canvas_fmt(c, r, 0, col + 3 + width, ROLE_TEXT, "%s", word_percent(share, progress(st)));
    }
}

static double checkpoint_time(const struct follow *f)
{
    for (int i = f->n_events - 1; i >= 0; i--)
        if (!strcmp(f->event[i].kind, "checkpoint"))
            return f->event[i].time;
    return NAN;
}

static void checkpoint_text(const struct follow *f, double now, char *out, size_t size)
{
    char age[WORD_SIZE], step[UNIT_SIZE];
    double t = checkpoint_time(f);

    if (f->status.checkpoint_step < 0)
        snprintf(out, size, "no checkpoint yet");
    else if (isfinite(t))
        snprintf(out, size, "ckpt %s ago", word_age(age, now - t));
    else
        snprintf(out, size, "ckpt step %s", unit_thousands(step, f->status.checkpoint_step));
}

static void eta_text(const struct run_status *st, double now, char *out, size_t size)
{
    char left[UNIT_SIZE], clock[WORD_SIZE];

    if (run_state_is_live(st->state) && isfinite(st->eta_s) && st->state != RUN_PAUSED)
        snprintf(out, size, "ETA %s, %s", unit_duration(left, st->eta_s),
                 word_time(clock, now + st->eta_s, now));
    else if (!run_state_is_live(st->state) && isfinite(st->elapsed_s))
        snprintf(out, size, "trained %s", unit_duration(left, floor(st->elapsed_s)));
    else
        snprintf(out, size, "ETA —");
}

// Pieces side by side, each with two blanks before it, dropped from the right when the line is
// full; the one that does not fit is left out whole.
static int piece(struct canvas *c, const struct rect *r, int row, int col, enum role role,
                 const char *text)
{
    int width = text_width(text);

    if (width == 0 || col + width + 1 > r->cols)
        return col;
    canvas_text(c, r, row, col, role, text);
    return col + width + 2;
}

static int frozen_piece(const struct monitor *m, struct canvas *c, const struct rect *r, int row,
                        int col, double now)
{
    char text[WORD_SIZE], age[UNIT_SIZE];

    if (m->frozen_at <= 0)
        return col;
    snprintf(text, sizeof(text), "FROZEN, %s behind", whole_seconds(age, now - m->frozen_at));
    return piece(c, r, row, col, ROLE_WARN, text);
}

static void draw_header_bottom(struct monitor *m, struct canvas *c, const struct rect *r,
                               double now)
{
    const struct run_status *st = &m->follow.status;
    char a[WORD_SIZE], b[WORD_SIZE], text[160];
    enum role role;
    int col = frozen_piece(m, c, r, 1, 1, now);

    monitor_heartbeat(m, now, text, sizeof(text), &role);
    if (role == ROLE_WARN)
        col = piece(c, r, 1, col, role, text);
    snprintf(text, sizeof(text), "%s / %s tok", word_count(a, (double)st->tokens),
             st->total_tokens > 0 ? word_count(b, (double)st->total_tokens) : "—");
    col = piece(c, r, 1, col, ROLE_TEXT, text);
    speed_text(st, text, sizeof(text));
    col = piece(c, r, 1, col, ROLE_TEXT, text);
    eta_text(st, now, text, sizeof(text));
    col = piece(c, r, 1, col, ROLE_TEXT, text);
    checkpoint_text(&m->follow, now, text, sizeof(text));
    col = piece(c, r, 1, col, ROLE_TEXT, text);
    monitor_heartbeat(m, now, text, sizeof(text), &role);
    if (role != ROLE_WARN)
        piece(c, r, 1, col, role, text);
}

// Further lines when something must be read in full: why it failed, what cannot be read. Returns
// the lines used.
static int draw_reason(const struct monitor *m, struct canvas *c, const struct rect *r, int row,
                       int lines)
{
    const struct follow *f = &m->follow;
    struct rect inner = {r->row, r->col + 1, r->rows, r->cols - 2};

    return wrap_text(c, &inner, row, lines, f->status.state == RUN_FAILED ? ROLE_ERROR : ROLE_WARN,
                     f->problem[0] ? f->problem : f->status.reason);
}

// ---- numbers ------------------------------------------------------------------------------------

static void number(struct canvas *c, const struct rect *r, int *row, const char *name,
                   const char *value, const char *after)
{
    if (*row >= r->rows)
        return;
    canvas_text(c, r, *row, 0, ROLE_DIM, name);
    canvas_right(c, r, *row, 18, ROLE_TEXT, value);
    if (after)
        canvas_text(c, r, *row, 20, ROLE_DIM, after);
    (*row)++;
}

static void draw_validation(const struct run_status *st, struct canvas *c, const struct rect *r,
                            int *row)
{
    char v[WORD_SIZE], best[WORD_SIZE], after[WORD_SIZE + 8];

    snprintf(after, sizeof(after), "best %s", word_ppl(best, exp(st->best_val_loss)));
    number(c, r, row, "val ppl", word_ppl(v, st->val_ppl), isnan(st->best_val_loss) ? NULL : after);
    snprintf(after, sizeof(after), "over %s tokens",
             st->val_tokens > 0 ? unit_thousands(v, st->val_tokens) : "—");
    if (*row < r->rows && st->val_tokens > 0)
        canvas_text(c, r, (*row)++, 2, ROLE_DIM, after);
    snprintf(after, sizeof(after), "best %s", word_number(best, st->best_val_loss, 3));
    number(c, r, row, "val loss", word_number(v, st->val_loss, 3),
           isnan(st->best_val_loss) ? NULL : after);
    number(c, r, row, "bits per byte", word_number(v, st->val_bpb, 3), NULL);
}

// Of a gated run: the share of (token, layer) pairs that are skipped.
static void draw_sparsity(const struct follow *f, struct canvas *c, const struct rect *r, int *row)
{
    char v[WORD_SIZE];

    if (f->eval.n && isfinite(f->eval.col[EVAL_SPARSITY][f->eval.n - 1]))
        number(c, r, row, "sparsity", word_percent(v, f->eval.col[EVAL_SPARSITY][f->eval.n - 1]),
               "g: layers");
}

static void draw_numbers(const struct monitor *m, struct canvas *c, const struct rect *r)
{
    const struct run_status *st = &m->follow.status;
    char v[WORD_SIZE];
    int row = 0;

    draw_validation(st, c, r, &row);
    draw_sparsity(&m->follow, c, r, &row);
    number(c, r, &row, "train loss", word_number(v, st->train_loss, 3), NULL);
    number(c, r, &row, "grad norm", word_number(v, st->grad_norm, 2), NULL);
    number(c, r, &row, "lr", word_small(v, st->lr), NULL);
    number(c, r, &row, "tokens/s", word_count(v, speed(st)), is_mean(st) ? "mean" : NULL);
    number(c, r, &row, "mfu", word_percent(v, st->mfu), NULL);
    if (row < r->rows && isfinite(st->mfu))
        canvas_text(c, r, row++, 2, ROLE_DIM, "of the sgemm ceiling");
    number(c, r, &row, "train FLOPs", word_count(v, st->flops), NULL);
    number(c, r, &row, "parameters", st->params > 0 ? word_count(v, (double)st->params) : "—",
           NULL);
    if (isfinite(st->elapsed_s))
        number(c, r, &row, "trained", unit_duration(v, floor(st->elapsed_s)), NULL);
}

// ---- events -------------------------------------------------------------------------------------

static void event_line(const struct follow *f, int i, double now, char *out, size_t size)
{
    const struct follow_event *e = &f->event[i];
    char clock[WORD_SIZE], step[UNIT_SIZE];
    // "checkpoint: step 400" behind "step 400" says nothing new
    const char *text = strncmp(e->text, "step ", 5) ? e->text : "";

    snprintf(out, size, "%s  step %s  %s%s%s", word_time(clock, e->time, now),
             unit_thousands(step, e->step), e->kind, text[0] ? ": " : "", text);
}

static void eval_line(const struct follow *f, int i, double now, char *out, size_t size)
{
    const struct follow_table *t = &f->eval;
    char clock[WORD_SIZE], ppl[WORD_SIZE], step[UNIT_SIZE], tokens[UNIT_SIZE] = "—", delta[48] = "";
    double over = t->col[EVAL_VAL_TOKENS][i];

    // only the same tokens can be compared; the first evaluation covers fewer
    if (i > 0 && t->col[EVAL_VAL_TOKENS][i] == t->col[EVAL_VAL_TOKENS][i - 1])
        snprintf(delta, sizeof(delta), " (%+.2f)", t->col[EVAL_PPL][i] - t->col[EVAL_PPL][i - 1]);
    snprintf(out, size, "%s  step %s  val ppl %s%s over %s tokens",
             word_time(clock, t->col[EVAL_TIME][i], now),
             unit_thousands(step, (int64_t)t->col[EVAL_STEP][i]),
             word_ppl(ppl, t->col[EVAL_PPL][i]), delta,
             isfinite(over) ? unit_thousands(tokens, (int64_t)over) : tokens);
}

// The newest lines, oldest on top: what happened and what was measured, in order of time.
static void draw_events(const struct monitor *m, struct canvas *c, const struct rect *r, double now)
{
    const struct follow *f = &m->follow;
    int e = f->n_events - 1, v = f->eval.n - 1;

    for (int row = r->rows - 1; row >= 0 && (e >= 0 || v >= 0); row--) {
        bool take_eval = e < 0 || (v >= 0 && f->eval.col[EVAL_TIME][v] >= f->event[e].time);
        char text[400];

        if (take_eval)
            eval_line(f, v--, now, text, sizeof(text));
        else
            event_line(f, e--, now, text, sizeof(text));
        canvas_text(c, r, row, 1, ROLE_DIM, text);
    }
}

static int event_count(const struct monitor *m, int most)
{
    int n = m->follow.n_events + m->follow.eval.n;

    return n < most ? (n > 0 ? n : 1) : most;
}

// ---- layouts ------------------------------------------------------------------------------------

static void draw_compact_numbers(const struct run_status *st, struct canvas *c,
                                 const struct rect *r)
{
    char v[WORD_SIZE], text[160];
    int col;

    snprintf(text, sizeof(text), "val ppl %s", word_ppl(v, st->val_ppl));
    col = piece(c, r, 1, 0, ROLE_TEXT, text);
    snprintf(text, sizeof(text), "on %s tok", word_count(v, (double)st->val_tokens));
    if (st->val_tokens > 0)
        col = piece(c, r, 1, col - 1, ROLE_DIM, text);
    speed_text(st, text, sizeof(text));
    col = piece(c, r, 1, col, ROLE_TEXT, text);
    snprintf(text, sizeof(text), "best %s", word_ppl(v, exp(st->best_val_loss)));
    piece(c, r, 1, col, ROLE_DIM, text);
}

static void draw_compact(struct monitor *m, struct canvas *c, const struct rect *r, double now)
{
    const struct run_status *st = &m->follow.status;
    char a[WORD_SIZE], text[160], word[16];
    struct rect chart = {r->row + 2, r->col, r->rows - 2, r->cols};
    enum role role;
    int col = 0;

    snprintf(text, sizeof(text), "%.20s %s", st->id, upper(word, run_state_name(st->state)));
    col = piece(c, r, 0, col, run_role(st->state), text) - 1;
    col = piece(c, r, 0, col, ROLE_TEXT, word_percent(a, progress(st))) - 1;
    col = frozen_piece(m, c, r, 0, col, now);
    monitor_heartbeat(m, now, text, sizeof(text), &role);
    if (role != ROLE_WARN)
        eta_text(st, now, text, sizeof(text));
    piece(c, r, 0, col, role == ROLE_WARN ? role : ROLE_TEXT, text);
    if (st->reason[0])
        draw_reason(m, c, r, 1, 1);
    else
        draw_compact_numbers(st, c, r);
    if (m->show_tail)
        run_tail_draw(&m->tail, c, &chart);
    else if (m->show_layers)
        monitor_layers(m, c, &chart);
    else
        monitor_chart(m, c, &chart, CHART_METRIC, now);
}

static void draw_grid(struct monitor *m, struct canvas *c, const struct rect *r, double now)
{
    int top = (r->rows + 1) / 2, left = (r->cols + 1) / 2;
    enum chart other = m->metric == METRIC_PPL ? CHART_LOSS : CHART_PPL;
    struct rect cell[4] = {{r->row, r->col, top, left - 1},
                           {r->row, r->col + left, top, r->cols - left},
                           {r->row + top, r->col, r->rows - top, left - 1},
                           {r->row + top, r->col + left, r->rows - top, r->cols - left}};

    monitor_chart(m, c, &cell[0], CHART_METRIC, now);
    monitor_chart(m, c, &cell[1], other, now);
    monitor_chart(m, c, &cell[2], CHART_GRAD_NORM, now);
    monitor_chart(m, c, &cell[3], CHART_SPEED, now);
}

static void draw_stack(struct monitor *m, struct canvas *c, const struct rect *r, double now)
{
    int small = r->rows / 3, left = (r->cols + 1) / 2;
    struct rect main = {r->row, r->col, r->rows - small, r->cols};
    struct rect grad = {r->row + main.rows, r->col, small, left - 1};
    struct rect speed = {r->row + main.rows, r->col + left, small, r->cols - left};

    monitor_chart(m, c, &main, CHART_METRIC, now);
    monitor_chart(m, c, &grad, CHART_GRAD_NORM, now);
    monitor_chart(m, c, &speed, CHART_SPEED, now);
}

static void draw_middle(struct monitor *m, struct canvas *c, const struct rect *r,
                        const struct rect *body, double now)
{
    if (m->show_tail)
        run_tail_draw(&m->tail, c, r);
    else if (body->cols >= GRID_COLS && body->rows >= GRID_ROWS)
        draw_grid(m, c, r, now);
    else if (body->rows >= STACK_ROWS)
        draw_stack(m, c, r, now);
    else
        monitor_chart(m, c, r, CHART_METRIC, now);
}

// Layers take the whole width, unless there is room for a curve beside them.
static void draw_layers(struct monitor *m, struct canvas *c, const struct rect *middle,
                        const struct rect *body, double now)
{
    int width = monitor_layers_width(m), rest = body->cols - width - 3;
    struct rect left = {middle->row, middle->col, middle->rows, body->cols};
    struct rect right = {middle->row, middle->col + width + 3, middle->rows, rest};

    if (rest >= COMPACT_COLS) {
        left.cols = width;
        monitor_chart(m, c, &right, CHART_METRIC, now);
    }
    monitor_layers(m, c, &left);
}

static void draw_full(struct monitor *m, struct canvas *c, const struct rect *r, double now)
{
    int events = event_count(m, r->rows >= GRID_ROWS ? 6 : r->rows >= 24 ? 4 : 2);
    int head = 2, panel = PANEL_COLS;
    struct rect middle, numbers, log;

    draw_header_top(m, c, r);
    draw_header_bottom(m, c, r, now);
    head += draw_reason(m, c, r, 2, r->rows / 4);
    middle = (struct rect){r->row + head, r->col, r->rows - head - events, r->cols - panel - 2};
    numbers = (struct rect){middle.row + 1, r->col + r->cols - panel, middle.rows - 1, panel};
    log = (struct rect){middle.row + middle.rows, r->col, events, r->cols};
    if (m->show_layers && !m->show_tail) {
        draw_layers(m, c, &middle, r, now);
    } else {
        draw_middle(m, c, &middle, r, now);
        draw_numbers(m, c, &numbers);
    }
    draw_events(m, c, &log, now);
}

static void draw_none(struct canvas *c, const struct rect *r)
{
    int row = r->rows / 3;

    canvas_text(c, r, row, 2, ROLE_TEXT, "No runs yet. Enter in 1 Design starts one, or:");
    canvas_text(c, r, row + 1, 2, ROLE_TITLE, "lathe train profiles/demo/crown.yaml");
}

void monitor_draw(struct monitor *m, struct canvas *c, const struct rect *body, double now)
{
    if (!m->open) {
        draw_none(c, body);
        return;
    }
    monitor_sync(m);
    if (body->rows < COMPACT_ROWS || body->cols < COMPACT_COLS)
        draw_compact(m, c, body, now);
    else
        draw_full(m, c, body, now);
}
