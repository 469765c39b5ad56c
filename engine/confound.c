#include "engine/confound.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/budget.h"
#include "engine/profile.h"

static const struct {
    const char *name;
    bool severe;
    const char *remedy;
} kinds[CONFOUND_KINDS] = {
    [CONFOUND_DEPTH] = {"depth", true,
                        "compare at equal depth: lathe grid, or --set model.n_layers"},
    [CONFOUND_WIDTH] = {"d_model", true, "compare at equal d_model"},
    [CONFOUND_PARAMS] = {"parameters", true, "lathe solve B --match A"},
    [CONFOUND_FLOPS] = {"FLOPs per token", false, "lathe solve B --match A --count flops"},
    [CONFOUND_TRAIN_FLOPS] = {"training FLOPs", false,
                              "lathe solve B --match A --count train-flops"},
    [CONFOUND_TOKENS] = {"training tokens", true, "give both the same tokens or training FLOPs"},
    [CONFOUND_DATA] = {"data", true, "train both on the same files in the same order"},
    [CONFOUND_TOKENIZER] = {"vocabulary", true, "use one tokenizer, or compare bits per byte"},
    [CONFOUND_POSITIONS] = {"positions", true, "use one position encoding and context"},
    [CONFOUND_ARCHITECTURE] = {"architecture", true, "change the shape alone"},
    [CONFOUND_OPTIMIZER] = {"optimizer", true, "use one schedule, or tune both alike"},
    [CONFOUND_INIT] = {"initial weights", false, "use one kind of initial weights"},
    [CONFOUND_SEED] = {"seed", false, "use the same seeds, several of them"},
    [CONFOUND_EVALUATION] = {"evaluation", false, "evaluate over the same tokens"},
};

// Keys by what they confound, by the longest beginning of their path; the rest does not matter to a
// result, or is the shape itself.
static const struct {
    const char *path;
    enum confound_kind kind;
} keys[] = {
    {"model.n_layers", CONFOUND_DEPTH},
    {"model.d_model", CONFOUND_WIDTH},
    {"data.train", CONFOUND_DATA},
    {"data.val", CONFOUND_DATA},
    {"data.dtype", CONFOUND_DATA},
    {"data.seed", CONFOUND_SEED},
    {"train.seed", CONFOUND_SEED},
    {"model.vocab", CONFOUND_TOKENIZER},
    {"model.pos", CONFOUND_POSITIONS},
    {"model.rope_theta", CONFOUND_POSITIONS},
    {"model.rope_layout", CONFOUND_POSITIONS},
    {"train.seq_len", CONFOUND_POSITIONS},
    {"model.head_dim", CONFOUND_ARCHITECTURE},
    {"model.norm", CONFOUND_ARCHITECTURE}, // also norm_place, norm_eps
    {"model.input_norm", CONFOUND_ARCHITECTURE},
    {"model.qk_norm", CONFOUND_ARCHITECTURE},
    {"model.act", CONFOUND_ARCHITECTURE},
    {"model.bias", CONFOUND_ARCHITECTURE},
    {"model.tie_embeddings", CONFOUND_ARCHITECTURE},
    {"model.block_", CONFOUND_ARCHITECTURE},
    {"model.reuse_inject", CONFOUND_ARCHITECTURE},
    {"gate.", CONFOUND_ARCHITECTURE},
    {"model.init", CONFOUND_INIT},
    {"model.depth_scale", CONFOUND_INIT},
    {"optim.", CONFOUND_OPTIMIZER},
    {"train.global_batch_size", CONFOUND_OPTIMIZER},
    {"eval.", CONFOUND_EVALUATION},
};

static enum confound_kind kind_of(const char *path)
{
    enum confound_kind kind = CONFOUND_KINDS;
    size_t best = 0;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        size_t n = strlen(keys[i].path);

        if (n > best && !strncmp(path, keys[i].path, n)) {
            best = n;
            kind = keys[i].kind;
        }
    }
    return kind;
}

static struct confound *add(struct confound *all, enum confound_kind kind)
{
    all[kind].kind = kind;
    all[kind].severe = kinds[kind].severe;
    all[kind].remedy = kinds[kind].remedy;
    return &all[kind];
}

// A number for more or fewer layers is the same; what gates would do matters with gates only.
bool confound_key_differs(const struct spec_key *key, const struct spec *a, const struct spec *b)
{
    struct buf x = {0}, y = {0};
    bool differs;

    if (spec_key_equal(key, a, b))
        return false;
    if (!strncmp(key->path, "gate.", 5) && !a->gate.enabled && !b->gate.enabled)
        return false;
    profile_value_text(key, a, &x);
    profile_value_text(key, b, &y);
    differs = strcmp(x.data ? x.data : "", y.data ? y.data : "") != 0;
    buf_release(&x);
    buf_release(&y);
    return differs;
}

// "positions: pos rope and alibi, rope_theta 10000 and 500000"
static void add_key(struct confound *all, const struct spec_key *key, const struct spec *a,
                    const struct spec *b)
{
    struct confound *c = add(all, kind_of(key->path));
    const char *word = strrchr(key->path, '.');
    struct buf x = {0}, y = {0};
    size_t used = strlen(c->text);

    profile_value_text(key, a, &x);
    profile_value_text(key, b, &y);
    if (c->kind == CONFOUND_DEPTH)
        snprintf(c->text, sizeof c->text, "depth differs: %s and %s layers", x.data, y.data);
    else if (used == 0)
        snprintf(c->text, sizeof c->text, "%s: %s %.40s and %.40s", kinds[c->kind].name, word + 1,
                 x.data, y.data);
    else
        snprintf(c->text + used, sizeof c->text - used, ", %s %.20s and %.20s", word + 1, x.data,
                 y.data);
    buf_release(&x);
    buf_release(&y);
}

static void add_ratio(struct confound *all, enum confound_kind kind, double a, double b)
{
    double change = (b - a) / a;

    if (a > 0 && b > 0 && fabs(change) > CONFOUND_TOLERANCE)
        snprintf(add(all, kind)->text, sizeof all->text, "%s differ by %+.2f%%", kinds[kind].name,
                 100 * change);
}

static void add_tokens(struct confound *all, const struct spec *a, const struct spec *b)
{
    int64_t x = spec_total_steps(a) * spec_tokens_per_step(a);
    int64_t y = spec_total_steps(b) * spec_tokens_per_step(b);
    char s[UNIT_SIZE], t[UNIT_SIZE];

    if (x != y)
        snprintf(add(all, CONFOUND_TOKENS)->text, sizeof all->text,
                 "training tokens differ: %s and %s", unit_thousands(s, x), unit_thousands(t, y));
}

static bool same_shape(const struct model_spec *a, const struct model_spec *b)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int i = 0; i < a->n_layers && a->n_layers == b->n_layers; i++)
            if (a->lane[lane][i] != b->lane[lane][i])
                return false;
    return a->n_layers == b->n_layers;
}

void confounds_between(const struct spec *a, const struct count *ca, const struct spec *b,
                       const struct count *cb, struct confounds *out)
{
    struct confound all[CONFOUND_KINDS] = {0};

    for (int i = 0; i < spec_key_count; i++)
        if (spec_keys[i].type != KEY_LANE && kind_of(spec_keys[i].path) != CONFOUND_KINDS &&
            confound_key_differs(&spec_keys[i], a, b))
            add_key(all, &spec_keys[i], a, b);
    add_ratio(all, CONFOUND_PARAMS, (double)ca->total, (double)cb->total);
    add_ratio(all, CONFOUND_FLOPS, ca->forward_per_token, cb->forward_per_token);
    add_ratio(all, CONFOUND_TRAIN_FLOPS, budget_value(BUDGET_TRAIN_FLOPS, a, ca),
              budget_value(BUDGET_TRAIN_FLOPS, b, cb));
    add_tokens(all, a, b);
    *out = (struct confounds){.same_shape = same_shape(&a->model, &b->model)};
    for (int severe = 1; severe >= 0; severe--)
        for (int k = 0; k < CONFOUND_KINDS; k++)
            if (all[k].text[0] && all[k].severe == severe) {
                out->v[out->n++] = all[k];
                out->severe += severe;
            }
}
