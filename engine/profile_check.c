// What must hold for the values of a spec, however they came there. With a text behind them,
// complaints stand at the value, otherwise they have only a path.
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/profile_read.h"

// Key of a path that may go on with [i] or .part; NULL for a path outside the table.
static const struct spec_key *key_of(const char *path)
{
    for (int i = 0; i < spec_key_count; i++) {
        size_t n = strlen(spec_keys[i].path);

        if (!strncmp(spec_keys[i].path, path, n) && strchr("[.", path[n]))
            return &spec_keys[i]; // strchr also finds the NUL at the end of an equal path
    }
    return NULL;
}

void mark_bad(struct reading *r, const char *path)
{
    const struct spec_key *k = key_of(path);

    if (k)
        r->slots[k - spec_keys].is_bad = true;
}

bool all_good(const struct reading *r, ...)
{
    bool good = true;
    const char *path;
    va_list ap;

    va_start(ap, r);
    while ((path = va_arg(ap, const char *))) {
        const struct spec_key *k = spec_key_find(path);

        BUG_IF(!k);
        good &= !r->slots[k - spec_keys].is_bad;
    }
    va_end(ap);
    return good;
}

// The value of a key, or the section that it could stand in. NULL: the file as a whole, or no text.
static const struct node *node_of(const struct reading *r, const char *path)
{
    const struct spec_key *k = key_of(path);
    const struct slot *slot = k ? &r->slots[k - spec_keys] : NULL;
    char section[16];

    if (slot && slot->value && slot->layer > 0)
        return slot->value;
    snprintf(section, sizeof section, "%.*s", (int)strcspn(path, "."), path);
    return section_find(section) < 0 ? NULL : r->section[section_find(section)];
}

void reading_error(struct reading *r, const struct node *node, const char *path, const char *fmt,
                   ...)
{
    const struct node *at = node && node->doc != r->docs[0] ? node : node_of(r, path);
    const struct doc *doc = at ? at->doc : r->top;
    char text[sizeof((struct err *)0)->text];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    problem_add(r->problems, SEV_ERROR, doc, at ? at->line : doc != NULL,
                at ? at->col : doc != NULL, path, "%s", text);
    mark_bad(r, path);
}

static void range_text(char *out, size_t size, double min, double max)
{
    if (max >= 9e15)
        snprintf(out, size, "at least %.15g", min);
    else
        snprintf(out, size, "%.15g to %.15g", min, max);
}

void range_error(struct reading *r, const struct spec_key *key, const char *path,
                 const struct node *node, const char *value)
{
    char range[64];

    range_text(range, sizeof range, key->min, key->max);
    reading_error(r, node, path, "%s is out of range, expected %s", value, range);
}

static void check_range(struct reading *r, const struct spec_key *k, const char *path, double v)
{
    char text[32];

    if (v >= k->min && v <= k->max)
        return;
    snprintf(text, sizeof text, "%.15g", v);
    range_error(r, k, path, NULL, text);
}

static void check_name(struct reading *r)
{
    const char *s = r->spec->name;
    char q[QUOTE_SIZE];

    if (!isalnum((unsigned char)s[0]) || strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"
                                                   "VWXYZ0123456789._-") != strlen(s))
        reading_error(r, NULL, "name",
                      "'%s' cannot name a run, expected letters, digits, '.', '_' and '-', the "
                      "first a letter or digit",
                      quote(q, s));
}

static void check_string(struct reading *r, const struct spec_key *k, const char *s)
{
    const unsigned char *u = (const unsigned char *)s;

    if (k->offset == offsetof(struct spec, name)) {
        check_name(r);
        return;
    }
    while (*u) {
        size_t n = utf8_sequence(u, strlen((const char *)u));
        const char *fault = *u < ' ' ? "a control character" : text_fault(u, n);

        if (fault) {
            reading_error(r, NULL, k->path, "holds %s", fault);
            return;
        }
        u += n;
    }
}

static void check_frame(struct reading *r, const struct spec_key *k, const struct frame *f)
{
    if (f->mode != FRAME_LITERAL)
        return;
    if (!(f->ffn > 0 && f->ffn <= k->max))
        reading_error(r, NULL, "model.frame.ffn", "%g is out of range, expected more than 0 to %g",
                      f->ffn, k->max);
    if (!(f->heads > 0 && f->heads <= k->max))
        reading_error(r, NULL, "model.frame.heads",
                      "%g is out of range, expected more than 0 to %g", f->heads, k->max);
}

static void check_floats(struct reading *r, const struct spec_key *k, const double *v)
{
    char path[64];

    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s[%d]", k->path, i);
        if (!(v[i] >= 0 && v[i] < 1))
            reading_error(r, NULL, path, "%.15g is out of range, expected 0 to less than 1", v[i]);
    }
}

static void check_layers(struct reading *r, const struct spec_key *k, const double *v)
{
    char path[64], text[32];

    for (int i = 0; i < r->spec->model.n_layers && i < SPEC_MAX_LAYERS; i++) {
        if (v[i] >= k->min && v[i] <= k->max)
            continue;
        snprintf(path, sizeof path, "%s[%d]", k->path, i);
        snprintf(text, sizeof text, "%.15g", v[i]);
        range_error(r, k, path, NULL, text);
        return;
    }
}

static void check_scalar(struct reading *r, const struct spec_key *k)
{
    const void *v = (const char *)r->spec + k->offset;
    bool is_int = k->type == KEY_INT || (k->type == KEY_BATCH && k->size == sizeof(int));
    int choice;

    if (is_int) {
        check_range(r, k, k->path, *(const int *)v);
    } else if (k->type == KEY_COUNT || k->type == KEY_BATCH) {
        check_range(r, k, k->path, (double)*(const int64_t *)v);
    } else if (k->type == KEY_FLOAT) {
        check_range(r, k, k->path, *(const double *)v);
    } else if (k->type == KEY_FLOATS) {
        check_floats(r, k, v);
    } else if (k->type == KEY_LAYERS) {
        check_layers(r, k, v);
    } else if (k->type == KEY_STRING) {
        check_string(r, k, v);
    } else if (k->type == KEY_FRAME) {
        check_frame(r, k, v);
    } else if (k->type == KEY_ENUM) {
        memcpy(&choice, v, sizeof choice);
        for (int i = 0; i <= choice; i++)
            BUG_IF(choice < 0 || !k->choices[i]);
    }
}

void check_scalars(struct reading *r, bool only_given)
{
    for (int i = 0; i < spec_key_count; i++)
        if (!r->slots[i].is_bad && (!only_given || r->slots[i].value))
            check_scalar(r, &spec_keys[i]);
}

// ---- lanes --------------------------------------------------------------------------------------

static const struct node *item_of(const struct reading *r, enum lane lane, int layer)
{
    return r->lane[lane].n > layer ? r->lane[lane].item[layer] : NULL;
}

// One complaint for each written value: a repeated one stands for many layers.
struct layer_errors {
    const struct node *last;
    bool has_one;
};

static bool starts_complaint(struct reading *r, struct layer_errors *e, enum lane lane, int layer)
{
    const struct node *node = item_of(r, lane, layer);

    if (e->has_one && node == e->last)
        return false;
    e->has_one = true;
    e->last = node;
    return true;
}

static void check_lane(struct reading *r, const struct spec_key *k)
{
    const struct model_spec *m = &r->spec->model;
    enum lane lane = (enum lane)k->size;
    const char *step_key = lane == LANE_FFN     ? "model.ffn_step"
                           : lane == LANE_HEADS ? "model.head_step"
                                                : NULL;
    bool has_step = step_key && all_good(r, step_key, NULL);
    int step = !has_step ? 1 : lane == LANE_FFN ? m->ffn_step : m->head_step;
    struct layer_errors errors = {0};
    char path[64], text[16];

    for (int i = 0; i < m->n_layers; i++) {
        int v = m->lane[lane][i], below = v / step * step;
        bool in_range = v >= k->min && v <= k->max;

        if (in_range && v % step == 0)
            continue;
        if (!starts_complaint(r, &errors, lane, i))
            continue;
        snprintf(path, sizeof path, "%s[%d]", k->path, i);
        snprintf(text, sizeof text, "%d", v);
        if (!in_range)
            range_error(r, k, path, item_of(r, lane, i), text);
        else if (!below)
            reading_error(r, item_of(r, lane, i), path,
                          "%d in layer %d is not a multiple of %s %d, the least", v, i, step_key,
                          step);
        else
            reading_error(r, item_of(r, lane, i), path,
                          "%d in layer %d is not a multiple of %s %d, nearest are %d and %d", v, i,
                          step_key, step, below, below + step);
    }
}

static void check_kv_divides(struct reading *r)
{
    const struct model_spec *m = &r->spec->model;
    struct layer_errors errors = {0};
    char path[64];

    for (int i = 0; i < m->n_layers; i++) {
        int heads = m->lane[LANE_HEADS][i], kv = m->lane[LANE_KV][i];

        if ((kv > 0 ? heads > 0 && heads % kv == 0 : heads == 0) ||
            !starts_complaint(r, &errors, LANE_KV, i))
            continue;
        snprintf(path, sizeof path, "model.n_kv_heads[%d]", i);
        if (heads == 0 || kv == 0)
            reading_error(r, item_of(r, LANE_KV, i), path,
                          "%d with n_heads %d in layer %d: both are 0 where a layer has no "
                          "attention, or none is ({ratio: R} does so)",
                          kv, heads, i);
        else
            reading_error(r, item_of(r, LANE_KV, i), path,
                          "%d does not divide n_heads %d in layer %d, expected a divisor", kv,
                          heads, i);
    }
}

static void check_not_empty(struct reading *r)
{
    const struct model_spec *m = &r->spec->model;
    struct layer_errors errors = {0};
    char path[64];

    for (int i = 0; i < m->n_layers; i++) {
        if (spec_has_attention(m, i) || spec_has_ffn(m, i) ||
            !starts_complaint(r, &errors, LANE_FFN, i))
            continue;
        snprintf(path, sizeof path, "model.ffn_width[%d]", i);
        reading_error(
            r, item_of(r, LANE_FFN, i), path,
            "0 in layer %d, whose n_heads is 0 too: a layer has attention, an FFN or both", i);
    }
}

// A head step that was derived from the key/value heads complains about them, not about itself.
static void check_lanes(struct reading *r)
{
    static const char *const paths[] = {"model.n_kv_heads", "model.n_heads", "model.ffn_width",
                                        "model.reuse"};

    if (!all_good(r, "model.n_layers", NULL))
        return;
    for (int i = 0; i < LANE_COUNT; i++) {
        if (i == 1 && all_good(r, paths[0], paths[1], NULL))
            check_kv_divides(r);
        if (i == 1 && !all_good(r, paths[0], NULL) &&
            !r->slots[spec_key_find("model.head_step") - spec_keys].value)
            mark_bad(r, "model.head_step");
        if (all_good(r, paths[i], NULL))
            check_lane(r, spec_key_find(paths[i]));
    }
    if (all_good(r, "model.n_heads", "model.ffn_width", NULL))
        check_not_empty(r);
}

// ---- between keys -------------------------------------------------------------------------------

static double approximate_params(const struct model_spec *m)
{
    double d = m->d_model, sum = (double)spec_padded_vocab(m) * d * (m->tie_embeddings ? 1 : 2);

    for (int i = 0; i < m->n_layers; i++)
        sum += d * (2. * m->head_dim * (m->lane[LANE_HEADS][i] + m->lane[LANE_KV][i]) +
                    3. * m->lane[LANE_FFN][i]);
    return sum;
}

static void check_model(struct reading *r)
{
    const struct model_spec *m = &r->spec->model;
    char size[UNIT_SIZE];
    double params;

    if (all_good(r, "model.head_dim", "model.pos", NULL) && m->pos == POS_ROPE && m->head_dim % 2)
        reading_error(r, NULL, "model.head_dim", "%d is odd, rope needs an even head_dim",
                      m->head_dim);
    if (!all_good(r, "model.d_model", "model.n_layers", "model.head_dim", "model.vocab",
                  "model.vocab_pad", "model.ffn_width", "model.n_heads", "model.n_kv_heads",
                  "model.tie_embeddings", NULL))
        return;
    params = approximate_params(m);
    if (params > 1e12)
        reading_error(r, NULL, "model.d_model", "the model would have %s parameters, at most 1T",
                      unit_count(size, params));
}

static void check_passes(struct reading *r)
{
    const struct model_spec *m = &r->spec->model;

    if (!all_good(r, "model.n_layers", "model.reuse", "model.block_loops", NULL))
        return;
    if (spec_step_count(m) > SPEC_MAX_STEPS)
        reading_error(r, NULL, "model.block_loops",
                      "%d passes of %d layers with repetitions are %d steps, at most %d",
                      m->block_loops, m->n_layers, spec_step_count(m), SPEC_MAX_STEPS);
}

// Mirrored layers share their gate, so they share its coefficients too.
static void check_mirror(struct reading *r, const char *path, const double *v)
{
    int L = r->spec->model.n_layers;
    char at[64];

    for (int i = 0; i < L / 2; i++) {
        if (v[i] == v[L - 1 - i])
            continue;
        snprintf(at, sizeof at, "%s[%d]", path, L - 1 - i);
        reading_error(r, NULL, at, "%g differs from %g of layer %d, which shares its gate",
                      v[L - 1 - i], v[i], i);
        return;
    }
}

static void check_uniform(struct reading *r, const char *path, const double *v)
{
    for (int i = 1; i < r->spec->model.n_layers; i++)
        if (v[i] != v[0]) {
            reading_error(r, NULL, path,
                          "fixed_l2 weighs a norm over all layers: expected a number");
            return;
        }
}

static void check_gate(struct reading *r)
{
    const struct gate_spec *g = &r->spec->gate;
    const struct node *at = node_of(r, "gate.attn");

    if (!g->enabled || !all_good(r, "model.n_layers", "gate.enabled", NULL))
        return;
    if (r->spec->model.n_layers % 2) {
        reading_error(r, NULL, "gate.enabled",
                      "gates pair layer i with layer n_layers-1-i, which leaves layer %d of %d "
                      "without a partner: expected an even n_layers",
                      r->spec->model.n_layers / 2, r->spec->model.n_layers);
        return;
    }
    if (all_good(r, "gate.alpha", NULL))
        (g->controller == CTRL_FIXED_L2 ? check_uniform : check_mirror)(r, "gate.alpha", g->alpha);
    if (all_good(r, "gate.beta", NULL))
        (g->controller == CTRL_FIXED_L2 ? check_uniform : check_mirror)(r, "gate.beta", g->beta);
    if (g->attn == GATE_ATTN_HARD)
        problem_add(r->problems, SEV_WARNING, at ? at->doc : r->top, at ? at->line : 0,
                    at ? at->col : 0, "gate.attn",
                    "'hard' drops keys and has no gradient: for loss and logits only, training "
                    "will refuse it");
}

static void check_batch(struct reading *r)
{
    const struct train_spec *t = &r->spec->train;

    if (!all_good(r, "train.micro_batch_size", "train.global_batch_size", NULL))
        return;
    if (t->global_batch_size % t->micro_batch_size)
        reading_error(r, NULL, "train.global_batch_size",
                      "%lld is not a multiple of micro_batch_size %d",
                      (long long)t->global_batch_size, t->micro_batch_size);
    // index arithmetic of activations is in 32 bits per row
    if (all_good(r, "train.seq_len", NULL) && (int64_t)t->micro_batch_size * t->seq_len > INT32_MAX)
        reading_error(r, NULL, "train.micro_batch_size",
                      "%d sequences of %d tokens are more than 2^31 tokens at once",
                      t->micro_batch_size, t->seq_len);
}

static void check_length(struct reading *r)
{
    const struct train_spec *t = &r->spec->train;
    double tokens = (double)t->max_steps * (double)t->global_batch_size * t->seq_len;

    if (!all_good(r, "train.max_tokens", "train.max_steps", NULL))
        return;
    if (t->max_tokens && t->max_steps)
        reading_error(r, NULL, "train.max_steps",
                      "given together with max_tokens, expected one of them");
    else if (!t->max_tokens && !t->max_steps)
        reading_error(r, NULL, "train.max_steps",
                      "the run has no length: max_steps and "
                      "max_tokens are both 0");
    else if (all_good(r, "train.global_batch_size", "train.seq_len", NULL) && tokens > 9e15)
        reading_error(r, NULL, "train.max_steps", "%lld steps are more than 9e15 tokens",
                      (long long)t->max_steps);
}

static void check_optim(struct reading *r)
{
    const struct optim_spec *o = &r->spec->optim;
    const struct slot *warmup = &r->slots[spec_key_find("optim.warmup_steps") - spec_keys];
    const struct node *at = node_of(r, "optim.warmup_steps");

    if (all_good(r, "optim.lr", "optim.min_lr", NULL) && o->min_lr > o->lr)
        reading_error(r, NULL, "optim.min_lr", "%g is above lr, expected at most %g", o->min_lr,
                      o->lr);
    // a run cut short is still a run: say it and go on
    if (!warmup->is_bad &&
        all_good(r, "train.max_tokens", "train.max_steps", "train.global_batch_size",
                 "train.seq_len", NULL) &&
        o->warmup_steps > spec_total_steps(r->spec))
        problem_add(r->problems, SEV_WARNING, at ? at->doc : r->top, at ? at->line : 0,
                    at ? at->col : 0, "optim.warmup_steps",
                    "%lld is more than the %lld steps of the run, lr never reaches its peak",
                    (long long)o->warmup_steps, (long long)spec_total_steps(r->spec));
}

void check_rest(struct reading *r)
{
    check_lanes(r);
    check_model(r);
    check_passes(r);
    check_gate(r);
    check_batch(r);
    check_length(r);
    check_optim(r);
}

int profile_validate(const struct spec *spec, struct problems *p)
{
    int before = p->errors;
    struct spec *copy = xmalloc(sizeof *copy);
    struct reading *r = xcalloc(1, sizeof *r);
    struct doc *no_docs[1] = {NULL};

    *copy = *spec;
    r->docs = no_docs;
    r->spec = copy;
    r->problems = p;
    r->slots = xcalloc((size_t)spec_key_count, sizeof *r->slots);
    check_scalars(r, false);
    check_rest(r);
    free(r->slots);
    free(r);
    free(copy);
    return p->errors > before ? -1 : 0;
}
