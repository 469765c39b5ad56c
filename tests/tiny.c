#include "tests/tiny.h"

#include "engine/rng.h"
#include "tests/t.h"

static void set_lane(struct spec *s, enum lane lane, const int *v)
{
    for (int i = 0; i < s->model.n_layers; i++)
        s->model.lane[lane][i] = v[i];
    s->model.source[lane].shape = SHAPE_LIST;
}

struct spec tiny_spec(void)
{
    struct spec s = {.name = "tiny"};
    struct model_spec *m = &s.model;

    m->d_model = 12;
    m->n_layers = 3;
    m->block_loops = 1;
    m->head_dim = 4;
    set_lane(&s, LANE_FFN, (int[]){5, 8, 12});
    set_lane(&s, LANE_HEADS, (int[]){2, 4, 3});
    set_lane(&s, LANE_KV, (int[]){1, 2, 3});
    set_lane(&s, LANE_REUSE, (int[]){1, 2, 1});
    m->ffn_step = m->head_step = 1;
    m->norm_eps = 1e-5;
    m->tie_embeddings = true;
    m->vocab = 11;
    m->vocab_pad = 8;
    m->rope_theta = 10000;
    m->init_std = 0.02;
    s.train.seq_len = 5;
    s.train.micro_batch_size = 2;
    s.train.global_batch_size = 2;
    s.train.max_steps = 10;
    s.train.seed = 1;
    s.train.threads = 2;
    s.data.seed = 1;
    s.optim = (struct optim_spec){.lr = 1e-2,
                                  .min_lr = 1e-3,
                                  .warmup_steps = 2,
                                  .betas = {0.9, 0.95},
                                  .eps = 1e-8,
                                  .weight_decay = 0.1,
                                  .max_norm = 1};
    s.eval.interval = s.log.interval = 1;
    s.save.interval = 1000;
    s.save.keep = 3;
    return s;
}

void tiny_fill(struct model *m, uint64_t seed)
{
    const struct param_list *list = model_params(m);

    for (int i = 0; i < list->n; i++) {
        const struct param *p = &list->v[i];
        uint64_t key = rng_key(seed, p->name);
        float *x = malloc((size_t)p->size * sizeof *x);

        for (int64_t j = 0; j < p->size; j++) {
            double z = rng_normal(key, (uint64_t)j);

            x[j] = (float)(p->n_dims == 2 ? 0.4 * z : p->init_value + 0.2 * z);
        }
        model_set_weight(m, p, x);
        free(x);
    }
}

void tiny_batch(const struct model *m, int vocab, uint64_t seed, int32_t *tokens, int32_t *targets)
{
    uint64_t key = rng_key(seed, "batch");

    for (int64_t i = 0; i < model_rows(m); i++) {
        tokens[i] = (int32_t)(rng_u64(key, 2 * (uint64_t)i) % (uint64_t)vocab);
        targets[i] = (int32_t)(rng_u64(key, 2 * (uint64_t)i + 1) % (uint64_t)vocab);
        if (i % 7 == 3)
            targets[i] = -1;
    }
}

struct backend *tiny_backend(const char *name, int threads)
{
    char why[256] = "";
    struct backend *be = backend_open(name, threads, why, sizeof why);

    if (!be)
        fail_msg("backend '%s': %s", name, why);
    return be;
}
