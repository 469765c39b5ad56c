// What the layers of a run do, over its evaluations: gates with their targets and the coefficients
// that steer them as a table, and one quantity as a waterfall. Layers are across, time runs down.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/verdict.h"
#include "tui/heat.h"
#include "tui/monitor_state.h"
#include "tui/run_words.h"

enum {
    LABEL_COLS = 11,    // of the table's row names
    GATE_COLS = 9,      // of one gate in the table
    STEP_COLS = 10,     // left of the waterfall
    ROW_COLS = 22,      // right of it: mean over layers and perplexity
    CELL_COLS = 9,      // at most for one layer: a shade and its number
    NUMBER_COLS = 7,    // from here on there is room for the number
    WATERFALL_ROWS = 5, // that the table leaves
};

// ---- quantities ---------------------------------------------------------------------------------

enum unit { SHARE, PLAIN, NORM };

static const struct quantity {
    const char *name;
    enum layer_array array;
    enum unit unit;
    double lo, hi; // equal: from the log, 0 included
} quantities[LAYERS_COUNT] = {
    [LAYERS_SPARSITY] = {"sparsity", LAYER_SPARSITY, SHARE, 0, 1},
    [LAYERS_MEAN] = {"mean gate", LAYER_MEAN, PLAIN, 0, 1},
    [LAYERS_VAR] = {"variance", LAYER_VAR, PLAIN, 0, 0.25},
    [LAYERS_ALPHA] = {"alpha", LAYER_ALPHA, PLAIN, 0, 0},
    [LAYERS_BETA] = {"beta", LAYER_BETA, PLAIN, 0, 0},
    [LAYERS_NORM] = {"stream norm", LAYER_NORM, NORM, 0, 0},
};

// Evaluations have most of it, coefficients are in the training records.
static const struct layer_log *log_with(const struct follow *f, enum layer_array which)
{
    return f->eval_layers.value[which] ? &f->eval_layers : &f->train_layers;
}

static bool has(const struct follow *f, enum layers_quantity q)
{
    const struct layer_log *l = log_with(f, quantities[q].array);

    return l->n > 0 && l->value[quantities[q].array];
}

void monitor_layers_next(struct monitor *m)
{
    for (int i = 1; i <= LAYERS_COUNT; i++) {
        enum layers_quantity q = (m->quantity + (enum layers_quantity)i) % LAYERS_COUNT;

        if (has(&m->follow, q)) {
            m->quantity = q;
            return;
        }
    }
}

void monitor_layers_move(struct monitor *m, int by)
{
    int n = m->follow.eval_layers.layers > m->follow.train_layers.layers
                ? m->follow.eval_layers.layers
                : m->follow.train_layers.layers;
    int to = m->layer + by;

    m->layer = to >= n ? n - 1 : to;
    m->layer = m->layer < 0 ? 0 : m->layer;
}

static char *value_text(char *out, enum unit unit, double v)
{
    if (isnan(v))
        snprintf(out, WORD_SIZE, "—");
    else if (unit == SHARE)
        snprintf(out, WORD_SIZE, "%.1f %%", 100 * v);
    else if (unit == NORM)
        snprintf(out, WORD_SIZE, "%.4g", v);
    else
        snprintf(out, WORD_SIZE, "%.3f", v);
    return out;
}

static double newest(const struct follow *f, enum layer_array which, int layer)
{
    const struct layer_log *l = log_with(f, which);

    return l->n && l->value[which] ? layer_log_value(l, which, l->n - 1, layer) : NAN;
}

// ---- the table of gates -------------------------------------------------------------------------

enum table_row {
    ROW_CONTROL,
    ROW_MEAN,
    ROW_MU,
    ROW_VAR,
    ROW_SIGMA,
    ROW_ALPHA,
    ROW_BETA,
    ROW_SPARSITY,
    ROW_CLOSED,
    ROW_OVER,
    TABLE_ROWS
};

static const struct {
    const char *label;
    int rank; // those of a low rank stay longest when there is little room
} table_rows[TABLE_ROWS] = {
    [ROW_CONTROL] = {"control", 5},  [ROW_MEAN] = {"mean gate", 1},
    [ROW_MU] = {"  target", 2},      [ROW_VAR] = {"variance", 7},
    [ROW_SIGMA] = {"  target", 8},   [ROW_ALPHA] = {"alpha", 3},
    [ROW_BETA] = {"beta", 4},        [ROW_SPARSITY] = {"sparsity", 6},
    [ROW_CLOSED] = {"unit shut", 9}, [ROW_OVER] = {"beyond 1", 10},
};

static const char *state_word(const struct verdict *v, int gate)
{
    if (v->kind == VERDICT_NO_TARGETS || v->kind == VERDICT_UNKNOWN)
        return "—";
    if (v->why[gate] & GATE_MEAN_OFF)
        return "mean off";
    if (v->why[gate] & GATE_VAR_OFF)
        return "var off";
    return v->why[gate] & GATE_DRIFTS ? "drifts" : v->kind == VERDICT_CONVERGED ? "at rest" : "ok";
}

static char *table_text(const struct follow *f, const struct verdict *v, enum table_row row,
                        int gate, char *out)
{
    bool aims = v->kind != VERDICT_NO_TARGETS;

    switch (row) {
    case ROW_CONTROL:
        snprintf(out, WORD_SIZE, "%s", state_word(v, gate));
        return out;
    case ROW_MEAN:
        return value_text(out, PLAIN, newest(f, LAYER_MEAN, gate));
    case ROW_MU:
        return value_text(out, PLAIN, aims ? v->mu[gate] : NAN);
    case ROW_VAR:
        return value_text(out, PLAIN, newest(f, LAYER_VAR, gate));
    case ROW_SIGMA:
        return value_text(out, PLAIN, aims ? v->sigma[gate] : NAN);
    case ROW_ALPHA:
        return value_text(out, PLAIN, newest(f, LAYER_ALPHA, gate));
    case ROW_BETA:
        return value_text(out, PLAIN, newest(f, LAYER_BETA, gate));
    case ROW_SPARSITY:
        return value_text(out, SHARE, newest(f, LAYER_SPARSITY, gate));
    case ROW_CLOSED:
        return value_text(out, SHARE, newest(f, LAYER_CLOSED, gate));
    case ROW_OVER:
        return value_text(out, SHARE, newest(f, LAYER_OVER, gate));
    case TABLE_ROWS:
        break;
    }
    BUG("row %d", (int)row);
}

static enum role table_role(const struct verdict *v, enum table_row row, int gate)
{
    if (row == ROW_MU || row == ROW_SIGMA)
        return ROLE_DIM;
    if (row == ROW_CONTROL && v->why[gate])
        return ROLE_WARN;
    if ((row == ROW_MEAN && (v->why[gate] & GATE_MEAN_OFF)) ||
        (row == ROW_VAR && (v->why[gate] & GATE_VAR_OFF)))
        return ROLE_WARN;
    return ROLE_TEXT;
}

// The gates that are shown: all, or a window around the cursor's.
static int first_gate(int gates, int shown, int at)
{
    int first = at - shown / 2;

    first = first > gates - shown ? gates - shown : first;
    return first < 0 ? 0 : first;
}

static void draw_gate_column(const struct monitor *m, const struct verdict *v, struct canvas *c,
                             const struct rect *r, int rows, int gate, int col)
{
    int layers = m->spec->model.n_layers, at = 1;
    char text[WORD_SIZE];

    snprintf(text, sizeof text, "%d %d", gate, layers - 1 - gate);
    canvas_right(c, r, 0, col,
                 spec_gate_of(&m->spec->model, m->layer) == gate ? ROLE_CURSOR : ROLE_TITLE, text);
    for (int row = 0; row < TABLE_ROWS; row++)
        if (table_rows[row].rank <= rows)
            canvas_right(c, r, at++, col, table_role(v, (enum table_row)row, gate),
                         table_text(&m->follow, v, (enum table_row)row, gate, text));
}

// rows: of the table without its head. Returns the rows used.
static int draw_table(const struct monitor *m, const struct verdict *v, struct canvas *c,
                      const struct rect *r, int rows)
{
    int shown = (r->cols - LABEL_COLS) / GATE_COLS, at = 1, first;

    shown = shown > v->gates ? v->gates : shown;
    first = first_gate(v->gates, shown, spec_gate_of(&m->spec->model, m->layer));
    canvas_text(c, r, 0, 1, ROLE_DIM, "layers");
    for (int row = 0; row < TABLE_ROWS; row++)
        if (table_rows[row].rank <= rows)
            canvas_text(c, r, at++, 1, ROLE_DIM, table_rows[row].label);
    for (int i = 0; i < shown; i++)
        draw_gate_column(m, v, c, r, rows, first + i, LABEL_COLS + (i + 1) * GATE_COLS - 2);
    if (shown < v->gates) // what lies outside the window
        canvas_fmt(c, r, 0, 8, ROLE_DIM, "%s", first > 0 ? "<" : " ");
    if (first + shown < v->gates)
        canvas_text(c, r, 0, LABEL_COLS + shown * GATE_COLS, ROLE_DIM, ">");
    return at;
}

// ---- the waterfall ------------------------------------------------------------------------------

struct fall {
    const struct quantity *q;
    const struct layer_log *log;
    struct heat heat;
    int width, group; // columns of a layer; layers of a column when they are too many
};

static struct heat range_of(const struct quantity *q, const struct layer_log *l)
{
    struct heat h = {q->lo, q->hi};

    if (q->lo < q->hi)
        return h;
    for (int row = 0; row < l->n; row++)
        for (int i = 0; i < l->layers; i++) {
            double v = layer_log_value(l, q->array, row, i);

            h.lo = v < h.lo ? v : h.lo;
            h.hi = v > h.hi ? v : h.hi;
        }
    return h;
}

static struct fall fall_of(const struct monitor *m, int cols)
{
    struct fall w = {.q = &quantities[m->quantity]};
    int room = cols - STEP_COLS - ROW_COLS, layers;

    w.log = log_with(&m->follow, w.q->array);
    w.heat = range_of(w.q, w.log);
    layers = w.log->layers > 0 ? w.log->layers : 1;
    room = room < 8 ? 8 : room;
    w.width = room / layers > CELL_COLS ? CELL_COLS : room / layers > 0 ? room / layers : 1;
    w.group = (layers + room - 1) / room;
    return w;
}

static int column_of(const struct fall *w, int layer)
{
    return STEP_COLS + layer / w->group * w->width;
}

static double cell_value(const struct fall *w, int row, int layer)
{
    double sum = 0;
    int n = 0;

    for (int i = layer; i < layer + w->group && i < w->log->layers; i++, n++)
        sum += layer_log_value(w->log, w->q->array, row, i);
    return sum / n;
}

// Layer numbers above the columns, as many as fit; the cursor's always.
static void draw_layers_head(const struct monitor *m, const struct fall *w, struct canvas *c,
                             const struct rect *r, int row)
{
    int step = w->width >= 3 ? 1 : w->width * 5 / w->group >= 3 ? 5 : 10;
    char text[WORD_SIZE];

    canvas_right(c, r, row, STEP_COLS - 2, ROLE_DIM, "step");
    for (int i = 0; i < w->log->layers; i += step)
        canvas_fmt(c, r, row, column_of(w, i), ROLE_DIM, "%d", i);
    snprintf(text, sizeof text, "%d", m->layer);
    for (int i = 0; i < (int)strlen(text) + 1; i++) // no other number may run into it
        canvas_put(c, r, row, column_of(w, m->layer) + i, ROLE_DIM, ' ');
    canvas_text(c, r, row, column_of(w, m->layer), ROLE_CURSOR, text);
    canvas_text(c, r, row, column_of(w, w->log->layers - 1) + w->width + 1, ROLE_DIM,
                "     mean   val ppl");
}

static void draw_cell(const struct fall *w, struct canvas *c, const struct rect *r, int row, int k,
                      int layer)
{
    double v = cell_value(w, k, layer);
    int col = column_of(w, layer);
    char text[WORD_SIZE];

    if (w->width < NUMBER_COLS) {
        heat_put(c, r, row, col, w->width, &w->heat, v);
        return;
    }
    heat_put(c, r, row, col, 1, &w->heat, v);
    if (w->q->unit == SHARE && isfinite(v))
        snprintf(text, sizeof text, "%.1f", 100 * v);
    else
        value_text(text, w->q->unit, v);
    canvas_right(c, r, row, col + w->width - 1 - (w->width > NUMBER_COLS),
                 heat_role(heat_level(&w->heat, v)), text);
}

static void draw_fall_row(const struct monitor *m, const struct fall *w, struct canvas *c,
                          const struct rect *r, int row, int k)
{
    const struct follow_table *e = &m->follow.eval;
    int at = follow_find(e, w->log->step[k]), col;
    char text[WORD_SIZE];

    canvas_right(c, r, row, STEP_COLS - 2, ROLE_DIM,
                 unit_thousands(text, (int64_t)w->log->step[k]));
    for (int i = 0; i < w->log->layers; i += w->group)
        draw_cell(w, c, r, row, k, i);
    col = column_of(w, w->log->layers - 1) + w->width;
    canvas_right(c, r, row, col + 9, ROLE_TEXT,
                 value_text(text, w->q->unit, layer_log_mean(w->log, w->q->array, k)));
    canvas_right(c, r, row, col + 19, ROLE_TEXT,
                 word_ppl(text, at >= 0 ? e->col[EVAL_PPL][at] : NAN));
}

// All records when they fit, else evenly chosen ones of the part that is zoomed at; the newest last.
static void draw_fall(const struct monitor *m, const struct fall *w, struct canvas *c,
                      const struct rect *r)
{
    static const double hidden[ZOOM_COUNT] = {0, 0.5, 0.9};
    int first = (int)(hidden[m->zoom] * w->log->n), n = w->log->n - first;

    for (int row = 0; row < r->rows; row++) {
        int k = n <= r->rows ? row : (int)((int64_t)(row + 1) * n / r->rows) - 1;

        if (k < n)
            draw_fall_row(m, w, c, r, row, first + k);
    }
}

static void draw_legend(const struct monitor *m, const struct fall *w, struct canvas *c,
                        const struct rect *r, int row)
{
    static const char *const zooms[] = {"", "  last 1/2", "  last 1/10"};
    char lo[WORD_SIZE], hi[WORD_SIZE], text[160], v[WORD_SIZE];
    int col = 1;

    col += canvas_text(c, r, row, col, ROLE_TITLE, w->q->name) + 2;
    value_text(lo, w->q->unit, w->heat.lo);
    value_text(hi, w->q->unit, w->heat.hi);
    col += heat_legend(c, r, row, col, lo, hi);
    col += canvas_text(c, r, row, col, ROLE_DIM, zooms[m->zoom]);
    snprintf(text, sizeof text, "layer %d: %s", m->layer,
             value_text(v, w->q->unit, newest(&m->follow, w->q->array, m->layer)));
    if (col + 3 + text_width(text) < r->cols)
        canvas_text(c, r, row, col + 3, ROLE_TEXT, text);
}

static void draw_waterfall(const struct monitor *m, struct canvas *c, const struct rect *r)
{
    struct fall w = fall_of(m, r->cols);
    struct rect rows = {r->row + 2, r->col, r->rows - 2, r->cols};

    if (r->rows < 3)
        return;
    draw_legend(m, &w, c, r, 0);
    draw_layers_head(m, &w, c, r, 1);
    draw_fall(m, &w, c, &rows);
}

// ---- the view -----------------------------------------------------------------------------------

static void draw_title(const struct monitor *m, const struct verdict *v, struct canvas *c,
                       const struct rect *r)
{
    char words[240], text[300];

    verdict_text(m->spec, v, words, sizeof words);
    if (m->spec->gate.controller == CTRL_NONE)
        snprintf(text, sizeof text, "gates without control");
    else
        snprintf(text, sizeof text, "control %s: %s",
                 spec_key_find("gate.controller")->choices[m->spec->gate.controller], words);
    canvas_cut(c, r, 0, 1,
               v->kind == VERDICT_OFF         ? ROLE_WARN
               : v->kind == VERDICT_CONVERGED ? ROLE_BETTER
                                              : ROLE_TEXT,
               text);
}

static int draw_gates(const struct monitor *m, struct canvas *c, const struct rect *r)
{
    struct rect table = {r->row + 1, r->col, r->rows - 1, r->cols};
    int rows = r->rows - 1 - 1 - 2 - WATERFALL_ROWS;
    struct verdict v;

    verdict_of(m->spec, &m->follow, &v);
    draw_title(m, &v, c, r);
    if (rows < 2) // the waterfall alone
        return 1;
    return 1 + draw_table(m, &v, c, &table, rows > TABLE_ROWS ? TABLE_ROWS : rows) +
           (rows > TABLE_ROWS);
}

int monitor_layers_width(const struct monitor *m)
{
    const struct layer_log *l = log_with(&m->follow, quantities[m->quantity].array);
    int gates = m->spec ? spec_gate_count(m->spec) : 0;
    int table = LABEL_COLS + gates * GATE_COLS, fall = STEP_COLS + ROW_COLS + l->layers * CELL_COLS;

    return table > fall ? table : fall;
}

void monitor_layers(struct monitor *m, struct canvas *c, const struct rect *r)
{
    bool gated = m->spec && spec_gate_count(m->spec) > 0;
    struct rect rest = *r;
    int used = 0;

    if (!has(&m->follow, m->quantity))
        monitor_layers_next(m);
    monitor_layers_move(m, 0);
    if (gated && r->rows > 4)
        used = draw_gates(m, c, r);
    rest.row += used;
    rest.rows -= used;
    if (has(&m->follow, m->quantity))
        draw_waterfall(m, c, &rest);
    else
        canvas_cut(c, &rest, 0, 1, ROLE_DIM,
                   "nothing is known of the layers yet: the first evaluation measures them");
}
