// lathe eval: a run's checkpoint over a token file.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/audit.h"
#include "engine/buf.h"
#include "engine/cli.h"
#include "engine/eval.h"
#include "engine/restore.h"

struct evaluation {
    struct restored r;
    struct shard shard;
    struct loader loader;
    struct eval_options o;
    struct eval_result result;
    int64_t stride; // 0 = the window
};

// ---- arguments ----------------------------------------------------------------------------------

static int refuse(const char *what, const char *subject)
{
    fprintf(stderr, "lathe eval: %s '%s'\nlathe help eval shows its options\n", what, subject);
    return CLI_USAGE;
}

// A whole number from least on; absent leaves *out alone.
static int parse_number(const struct cli_args *a, const char *option, int64_t least, int64_t *out)
{
    const char *text = cli_value(a, option);
    char what[80];

    if (!text || (unit_parse_count(text, out) && *out >= least))
        return 0;
    snprintf(what, sizeof what, "--%s takes a whole number from %lld, not", option,
             (long long)least);
    return refuse(what, text);
}

static int parse_average(const struct cli_args *a, enum eval_avg *avg)
{
    const char *text = cli_value(a, "avg");

    if (!text || !strcmp(text, "token"))
        *avg = EVAL_AVG_TOKEN;
    else if (!strcmp(text, "chunk"))
        *avg = EVAL_AVG_CHUNK;
    else
        return refuse("--avg takes token or chunk, not", text);
    return 0;
}

// ---- scoring ------------------------------------------------------------------------------------

static void show_progress(void *user, double share)
{
    (void)user;
    fprintf(stderr, "\revaluating %3.0f%%", 100 * share);
    fflush(stderr);
}

static int open_data(struct evaluation *e, const char *path, struct err *err)
{
    struct audit audit;

    if (!path)
        path = e->r.spec.data.val;
    if (!path[0])
        return err_set(err, "the run names no data.val: give --data FILE");
    if (shard_open(&e->shard, path, e->r.spec.data.dtype, err) < 0)
        return -1;
    if (audit_shard(&e->shard, e->r.spec.model.vocab, &audit, err) < 0 ||
        loader_init(&e->loader, &e->shard, e->r.spec.train.seq_len, 0, err) < 0) {
        shard_close(&e->shard);
        return -1;
    }
    e->loader.vocab = e->r.spec.model.vocab;
    if (e->stride)
        e->loader.stride = e->stride;
    return 0;
}

static int score(struct evaluation *e, const struct cli_args *a, struct err *err)
{
    bool shows = isatty(2) && !cli_has(a, "json");
    int rc = restore_load(&e->r, cli_value(a, "backend"), MODEL_EVAL, err);

    if (rc < 0)
        return -1;
    e->o.progress = shows ? show_progress : NULL;
    rc = eval_score(e->r.model, &e->loader, &e->o, &e->result, err);
    if (shows)
        fprintf(stderr, "\r%20s\r", "");
    return rc;
}

// Longer windows, fewer of them at once: the rows of a batch stay about as many.
static void set_window(struct spec *s, int64_t T)
{
    int64_t rows = (int64_t)s->train.micro_batch_size * s->train.seq_len;

    if (T == s->train.seq_len)
        return;
    s->train.seq_len = (int)T;
    s->train.micro_batch_size = rows / T > 1 ? (int)(rows / T) : 1;
}

// ---- the answer ---------------------------------------------------------------------------------

static double mean_zero(const struct evaluation *e)
{
    int gates = spec_gate_count(&e->r.spec);
    double sum = 0;

    for (int i = 0; i < gates; i++)
        sum += e->result.gate[i].zero;
    return gates ? sum / gates : NAN;
}

static void print_gates(const struct evaluation *e)
{
    const struct spec *s = &e->r.spec;

    if (!spec_gate_count(s))
        return;
    printf("sparsity %.4f, mean over layers\n\nlayers   mean gate  variance  sparsity\n",
           mean_zero(e));
    for (int i = 0; i < spec_gate_count(s); i++)
        printf("%3d %3d  %9.4f %9.4f %9.4f\n", i, s->model.n_layers - 1 - i, e->result.gate[i].mean,
               e->result.gate[i].var, e->result.gate[i].zero);
}

static void print_result(const struct evaluation *e)
{
    const struct eval_result *r = &e->result;
    char step[UNIT_SIZE], tokens[UNIT_SIZE], windows[UNIT_SIZE], window[UNIT_SIZE];

    printf("%s, step %s, on %s\n", e->r.run, unit_thousands(step, e->r.step), e->shard.path);
    printf("loss %.4f, PPL %.4g over %s tokens: %s window%s of %s%s", r->loss, r->ppl,
           unit_thousands(tokens, r->tokens), unit_thousands(windows, r->windows),
           r->windows == 1 ? "" : "s", unit_thousands(window, e->loader.T),
           e->o.avg == EVAL_AVG_CHUNK ? ", mean of their means" : "");
    if (e->loader.stride != e->loader.T)
        printf(", one each %s", unit_thousands(window, e->loader.stride));
    if (isfinite(r->bpb))
        printf("; %.4f bits per byte", r->bpb);
    printf("\n");
    print_gates(e);
}

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

// One value per layer, mirrored.
static json_t *per_layer(const struct evaluation *e, size_t member)
{
    const struct model_spec *m = &e->r.spec.model;
    json_t *a = json_array();

    for (int i = 0; i < m->n_layers; i++)
        json_array_append_new(
            a,
            number(*(const double *)((const char *)&e->result.gate[spec_gate_of(m, i)] + member)));
    return a;
}

static json_t *to_json(const struct evaluation *e)
{
    const struct eval_result *r = &e->result;
    json_t *j = json_pack(
        "{s:s, s:I, s:s, s:o, s:o, s:o, s:I, s:I, s:i, s:I, s:s}", "run", e->r.run, "step",
        (json_int_t)e->r.step, "data", e->shard.path, "val/loss", number(r->loss), "val/ppl",
        number(r->ppl), "val/bpb", number(r->bpb), "val/tokens", (json_int_t)r->tokens, "windows",
        (json_int_t)r->windows, "seq_len", e->loader.T, "stride", (json_int_t)e->loader.stride,
        "avg", e->o.avg == EVAL_AVG_CHUNK ? "chunk" : "token");

    if (!spec_gate_count(&e->r.spec))
        return j;
    json_object_set_new(j, "val/sparsity", number(mean_zero(e)));
    json_object_set_new(j, "gate/mean", per_layer(e, offsetof(struct gate_stat, mean)));
    json_object_set_new(j, "gate/var", per_layer(e, offsetof(struct gate_stat, var)));
    json_object_set_new(j, "gate/sparsity", per_layer(e, offsetof(struct gate_stat, zero)));
    return j;
}

static int evaluate(struct evaluation *e, const struct cli_args *a, struct err *err)
{
    int rc;

    if (open_data(e, cli_value(a, "data"), err) < 0)
        return -1;
    rc = score(e, a, err);
    if (rc == 0 && cli_has(a, "json"))
        cli_print_json(to_json(e));
    else if (rc == 0)
        print_result(e);
    shard_close(&e->shard);
    return rc;
}

int cmd_eval(const struct cli_command *cmd, int argc, char **argv)
{
    struct evaluation *e = xcalloc(1, sizeof *e);
    struct cli_args a;
    struct err err = ERR_INIT;
    int64_t step = -1, T = 0;
    int rc = cli_parse(cmd, argc, argv, &a);

    if (!rc && !(rc = parse_number(&a, "step", 0, &step)) &&
        !(rc = parse_number(&a, "seq-len", 1, &T)) &&
        !(rc = parse_number(&a, "stride", 1, &e->stride)) &&
        !(rc = parse_number(&a, "max-tokens", 1, &e->o.max_tokens)) &&
        !(rc = parse_average(&a, &e->o.avg))) {
        int failed = restore_find(&e->r, a.operand[0], step, &err);

        if (!failed && T > INT32_MAX / 2)
            failed = err_set(&err, "--seq-len %lld is too long", (long long)T);
        if (!failed && T)
            set_window(&e->r.spec, T);
        if (!failed && e->stride && e->stride < e->r.spec.train.seq_len)
            failed = err_set(&err, "--stride %lld is shorter than the windows of %d tokens",
                             (long long)e->stride, e->r.spec.train.seq_len);
        if (failed || evaluate(e, &a, &err))
            rc = cli_fail(&err, CLI_INPUT);
        restore_close(&e->r);
    }
    free(e);
    return rc;
}
