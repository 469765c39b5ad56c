// lathe count, check and show: what a profile costs, what is wrong with it, what it resolves to.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/cli.h"
#include "engine/count.h"
#include "engine/file.h"
#include "engine/flops.h"

// ---- count --------------------------------------------------------------------------------------

static void print_title(const struct spec *s)
{
    const struct model_spec *m = &s->model;
    char vocab[UNIT_SIZE];

    printf("%s: %d layer%s, d_model %d, head_dim %d, vocabulary %s", s->name, m->n_layers,
           m->n_layers == 1 ? "" : "s", m->d_model, m->head_dim,
           unit_thousands(vocab, spec_padded_vocab(m)));
    if (spec_padded_vocab(m) != m->vocab)
        printf(" (%s padded)", unit_thousands(vocab, m->vocab));
    printf("\n");
}

static bool repeats(const struct model_spec *m)
{
    return spec_step_count(m) != m->n_layers;
}

// What the columns of the layers do not show.
static void print_structure(const struct spec *s)
{
    const struct model_spec *m = &s->model;
    int gates = spec_gate_count(s);

    if (gates)
        printf("%d gate unit%s, mirrored: layers 0..%d and %d..%d (gate.attn %s)\n", gates,
               gates == 1 ? "" : "s", gates - 1, m->n_layers - 1, m->n_layers - gates,
               spec_key_find("gate.attn")->choices[s->gate.attn]);
    if (m->block_loops > 1)
        printf("the stack runs %d times (block_loops): %d layers applied\n", m->block_loops,
               spec_step_count(m));
    else if (repeats(m))
        printf("%d layers applied (reuse)\n", spec_step_count(m));
    if (m->input_norm)
        printf("one more norm, right after the embedding (input_norm)\n");
    printf("\n");
}

static void print_number(const char *group, int64_t n, const char *what)
{
    char text[UNIT_SIZE];

    printf("%-11s %17s  %s\n", group, unit_thousands(text, n), what);
}

static void print_params(const struct spec *s, const struct count *c)
{
    bool has_table = s->model.pos == POS_LEARNED;

    print_number("parameters", c->total, "total");
    print_number("", c->non_embedding,
                 has_table ? "non-embedding: no token or position table"
                           : "non-embedding: without the input embedding");
    print_number("", c->non_embedding_no_head,
                 s->model.tie_embeddings ? "no head: the same, as the output matrix is tied"
                                         : "no head: also without the output matrix");
}

static void print_flops(const struct spec *s, const struct count *c)
{
    int64_t steps = spec_total_steps(s);
    double tokens = (double)steps * (double)spec_tokens_per_step(s);
    char what[80], n[UNIT_SIZE], f[UNIT_SIZE], k[UNIT_SIZE];

    snprintf(what, sizeof what, "forward, full attention over %s tokens",
             unit_thousands(n, s->train.seq_len));
    print_number("FLOPs/token", (int64_t)c->forward_per_token, what);
    print_number("", (int64_t)c->forward_per_token_causal, "forward, causal attention");
    if (c->gate_flops > 0)
        print_number("", (int64_t)c->gate_flops, "of these the gate units");
    print_number("", (int64_t)c->train_per_token, "training: 3 x forward, full attention");
    if (steps > 0)
        printf("%-11s %17s  FLOPs: %s tokens, %s steps\n", "planned run",
               unit_count(f, c->train_per_token * tokens),
               unit_thousands(n, (int64_t)fmin(tokens, 9e18)), unit_thousands(k, steps));
}

static void print_bytes(const char *group, int64_t n, const char *what)
{
    char text[UNIT_SIZE];

    printf("%-11s %17s  %s\n", group, unit_bytes(text, (double)n), what);
}

static void print_memory(const struct spec *s, const struct count *c)
{
    const struct model_spec *m = &s->model;
    bool is_layer = s->train.recompute == RECOMPUTE_LAYER;
    char what[80];

    print_bytes("memory", c->weights_bytes, "weights (f32)");
    print_bytes("", c->gradients_bytes, "gradients");
    print_bytes("", c->optimizer_bytes, "AdamW moments");
    snprintf(what, sizeof what, "activations of %d x %d tokens%s", s->train.micro_batch_size,
             s->train.seq_len, is_layer ? ", recomputed" : "");
    print_bytes("", c->activations_bytes, what);
    if (!is_layer && (repeats(m) || s->train.recompute == RECOMPUTE_AUTO))
        print_bytes("", c->activations_recompute_bytes, "the same with train.recompute=layer");
    print_bytes("", c->kv_bytes_per_token, "keys and values per token (f32 cache)");
}

static void bar(char *out, int width, int v, int most)
{
    int n = most > 0 ? (int)(((int64_t)v * width + most / 2) / most) : 0;

    memset(out, '#', (size_t)n);
    out[n] = '\0';
}

static void print_layers(const struct spec *s, const struct count *c)
{
    enum { BAR = 18 };
    const struct model_spec *m = &s->model;
    bool has_reuse = spec_reuse_total(m) != m->n_layers;
    int most = 0;

    for (int i = 0; i < m->n_layers; i++)
        most = m->lane[LANE_FFN][i] > most ? m->lane[LANE_FFN][i] : most;
    printf("\nlayer heads   kv %s  ffn_width %-*s %12s %14s\n", has_reuse ? "reuse" : "", BAR, "",
           "params", "FLOPs/token");
    for (int i = 0; i < m->n_layers; i++) {
        char reuse[16] = "", text[BAR + 1], params[UNIT_SIZE], flops[UNIT_SIZE];

        if (has_reuse)
            snprintf(reuse, sizeof reuse, "%5d", m->lane[LANE_REUSE][i]);
        bar(text, BAR, m->lane[LANE_FFN][i], most);
        printf("%5d %5d %4d %s %10d %-*s %12s %14s\n", i, m->lane[LANE_HEADS][i],
               m->lane[LANE_KV][i], reuse, m->lane[LANE_FFN][i], BAR, text,
               unit_thousands(params, c->layer[i].params),
               unit_thousands(flops, (int64_t)c->layer[i].forward_flops));
    }
}

// ---- count --flops ------------------------------------------------------------------------------

// What --flops and --sparsity ask for.
struct flops_request {
    const struct flops_convention *f[16]; // in the order asked, NULL after the last
    double sparsity;
};
enum { MAX_FLOPS = sizeof((struct flops_request *)0)->f / sizeof(struct flops_convention *) - 1 };

static int flops_usage(const char *what, int len, const char *name)
{
    fprintf(stderr, "lathe count: %s '%.*s'; known are", what, len, name);
    for (const struct flops_convention *f = flops_conventions; f->name; f++)
        fprintf(stderr, " %s", f->name);
    fprintf(stderr, " and all\n");
    return CLI_USAGE;
}

static bool asks_for(const struct flops_request *r, const struct flops_convention *f)
{
    for (int i = 0; r->f[i]; i++)
        if (r->f[i] == f)
            return true;
    return false;
}

static void ask_for(struct flops_request *r, const struct flops_convention *f)
{
    int n = 0;

    while (r->f[n])
        n++;
    if (n < MAX_FLOPS && !asks_for(r, f))
        r->f[n] = f;
}

// "palm,kaplan" or "all"
static int parse_conventions(const char *list, struct flops_request *r)
{
    for (const char *at = list;; at++) {
        size_t len = strcspn(at, ",");
        const struct flops_convention *one = flops_find(at, len), *f = flops_conventions;
        bool all = len == 3 && !strncmp(at, "all", 3);

        if (!one && !all)
            return flops_usage("--flops knows no convention", (int)len, at);
        for (; all && f->name; f++)
            ask_for(r, f);
        if (one)
            ask_for(r, one);
        at += len;
        if (!*at)
            return 0;
    }
}

static int parse_sparsity(const char *text, const struct spec *s, struct flops_request *r)
{
    if (!unit_parse_float(text, &r->sparsity) || r->sparsity < 0 || r->sparsity > 1) {
        fprintf(stderr, "lathe count: --sparsity is a share from 0 to 1, not '%s'\n", text);
        return CLI_USAGE;
    }
    if (spec_gate_count(s) == 0) {
        fprintf(stderr,
                "lathe count: --sparsity: '%s' has no gates (gate.enabled), so no token "
                "skips a layer\n",
                s->name);
        return CLI_INPUT;
    }
    return 0;
}

static int parse_flops(const struct cli_args *a, const struct spec *s, struct flops_request *r)
{
    const char *list = cli_value(a, "flops"), *sparsity = cli_value(a, "sparsity");
    int rc = 0;

    *r = (struct flops_request){0};
    if (sparsity)
        rc = parse_sparsity(sparsity, s, r);
    if (!rc && (list || sparsity))
        rc = parse_conventions(list ? list : "house", r);
    for (int i = 0; !rc && sparsity && list && strcmp(list, "all") && r->f[i]; i++)
        if (!r->f[i]->sparsity) {
            fprintf(stderr, "lathe count: the convention '%s' has no term for --sparsity\n",
                    r->f[i]->name);
            rc = CLI_USAGE;
        }
    return rc;
}

// The share that a convention can take.
static double sparsity_for(const struct flops_request *r, const struct flops_convention *f)
{
    return f->sparsity ? r->sparsity : 0;
}

static void print_conventions(const struct spec *s, const struct count *c,
                              const struct flops_request *r)
{
    double S = s->train.seq_len, own = c->forward_per_token;
    char token[UNIT_SIZE], train[UNIT_SIZE], sequence[UNIT_SIZE];

    if (!r->f[0])
        return;
    if (r->sparsity > 0)
        printf("\nwhere every layer is skipped by %g of the tokens:", r->sparsity);
    printf("\nFLOPs by        forward/token    training/token  forward/sequence  to house\n");
    for (int i = 0; r->f[i]; i++) {
        const struct flops_convention *f = r->f[i];
        double sum = f->forward(s, c, sparsity_for(r, f));

        printf("%-11s %17s %17s %17s %9.4f\n", f->name, unit_thousands(token, llround(sum / S)),
               unit_thousands(train, llround(f->train_share * sum / S)),
               unit_thousands(sequence, llround(sum)), sum / S / own);
        printf("            %s%s\n            %s\n", f->source,
               r->sparsity > 0 && !f->sparsity ? " (no term for sparsity)" : "", f->rule);
    }
}

static json_t *conventions_json(const struct spec *s, const struct count *c,
                                const struct flops_request *r)
{
    json_t *j = json_object();

    for (int i = 0; r->f[i]; i++)
        json_object_set_new(j, r->f[i]->name,
                            flops_to_json(r->f[i], s, c, sparsity_for(r, r->f[i])));
    return j;
}

static void print_count_json(const struct spec *s, const struct count *c,
                             const struct flops_request *r)
{
    json_t *j = count_to_json(s, c);

    if (r->f[0])
        json_object_set_new(j, "flops_alternatives", conventions_json(s, c, r));
    cli_print_json(j);
}

int cmd_count(const struct cli_command *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct spec spec;
    struct count c;
    struct flops_request r;
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc || (rc = cli_profile(&a, a.operand[0], &spec)) || (rc = parse_flops(&a, &spec, &r)))
        return rc;
    count_model(&spec, &c);
    if (cli_has(&a, "json")) {
        print_count_json(&spec, &c, &r);
        return CLI_OK;
    }
    print_title(&spec);
    print_structure(&spec);
    print_params(&spec, &c);
    print_flops(&spec, &c);
    print_memory(&spec, &c);
    print_layers(&spec, &c);
    print_conventions(&spec, &c, &r);
    return CLI_OK;
}

// ---- check --------------------------------------------------------------------------------------

static const char *const severities[] = {"error", "warning", "note"};

static void tally(const struct problems *p, int n[3])
{
    for (int i = 0; i < p->n; i++)
        n[p->v[i].severity]++;
}

// null where the profile's text could hold bytes that JSON cannot
static json_t *text_json(const char *s)
{
    json_t *j = json_string(s);

    return j ? j : json_null();
}

static json_t *problem_json(const struct problem *p)
{
    return json_pack("{s:s, s:o, s:i, s:i, s:o, s:o}", "severity", severities[p->severity], "file",
                     text_json(p->err.file), "line", p->err.line, "col", p->err.col, "path",
                     text_json(p->path), "message", text_json(p->err.text));
}

static json_t *problems_json(const struct problems *p)
{
    json_t *list = json_array();
    int n[3] = {0};

    tally(p, n);
    for (int i = 0; i < p->n; i++)
        json_array_append_new(list, problem_json(&p->v[i]));
    return json_pack("{s:b, s:i, s:i, s:i, s:o}", "ok", p->errors == 0, "errors", n[SEV_ERROR],
                     "warnings", n[SEV_WARNING], "notes", n[SEV_NOTE], "problems", list);
}

static void print_verdict(const char *path, const struct problems *p)
{
    const char *sep = "";
    int n[3] = {0};

    tally(p, n);
    problems_print(p, stdout);
    printf("%s: ", path);
    for (int i = 0; i < 3; i++)
        if (n[i]) {
            printf("%s%d %s%s", sep, n[i], severities[i], n[i] == 1 ? "" : "s");
            sep = ", ";
        }
    printf("%s\n", p->n ? "" : "ok");
}

int cmd_check(const struct cli_command *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct spec spec;
    struct problems p = {0};
    struct err err = ERR_INIT;
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc)
        return rc;
    if (!file_exists(a.operand[0])) {
        err_set(&err, "no such profile: '%s'", a.operand[0]);
        return cli_fail(&err, CLI_INPUT);
    }
    rc = profile_load(a.operand[0], a.set, a.n_set, &spec, &p) < 0 ? CLI_NO : CLI_OK;
    if (cli_has(&a, "json"))
        cli_print_json(problems_json(&p));
    else
        print_verdict(a.operand[0], &p);
    problems_release(&p);
    return rc;
}

// ---- show ---------------------------------------------------------------------------------------

int cmd_show(const struct cli_command *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct spec spec;
    char *header, *text;
    json_t *j;
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc || (rc = cli_profile(&a, a.operand[0], &spec)))
        return rc;
    if (cli_has(&a, "json")) {
        j = profile_to_json(&spec);
        json_dumpf(j, stdout, PROFILE_JSON);
        putchar('\n');
        json_decref(j);
        return CLI_OK;
    }
    header = xasprintf("resolved from %s", a.operand[0]);
    text = profile_to_yaml(&spec, header);
    fputs(text, stdout);
    free(text);
    free(header);
    return CLI_OK;
}
