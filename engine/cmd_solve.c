// lathe solve: a profile moved onto a budget. lathe grid: the uniform designs of a budget.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/cli.h"
#include "engine/file.h"
#include "engine/solve.h"
#include "engine/variant.h"

struct task {
    struct solve_request r;
    bool locked[SPEC_MAX_LAYERS];
    double tolerance;
    char other[SPEC_NAME_SIZE]; // the profile that was matched
};

static int refuse(const struct cli_args *a, const char *what, const char *subject)
{
    const char *name = a->cmd->name;

    fprintf(stderr, "lathe %s: %s '%s'\nlathe help %s shows its options\n", name, what, subject,
            name);
    return CLI_USAGE;
}

// ---- arguments ----------------------------------------------------------------------------------

// The target of --match: what the other profile has of the quantity --count names.
static int match(const struct cli_args *a, struct task *t)
{
    const char *count = cli_value(a, "count");
    struct cli_args plain = *a;
    struct spec other;
    struct count c;
    int rc;

    t->r.budget = count ? budget_find(count) : BUDGET_PARAMS;
    if (t->r.budget == BUDGET_KINDS)
        return refuse(
            a, "--count takes params, non-embedding, flops, train-flops, memory or kv, not", count);
    plain.n_set = 0; // --set is for the profile that moves
    if ((rc = cli_profile(&plain, cli_value(a, "match"), &other)))
        return rc;
    count_model(&other, &c);
    t->r.target = budget_value(t->r.budget, &other, &c);
    memcpy(t->other, other.name, sizeof t->other);
    return t->r.target > 0 ? 0 : refuse(a, "there is nothing to match in", other.name);
}

// Exactly one of the quantities, or --match.
static int parse_target(const struct cli_args *a, struct task *t)
{
    struct err err = ERR_INIT;
    int given = cli_has(a, "match");

    for (int b = 0; b < BUDGET_KINDS; b++) {
        const char *text = cli_value(a, budget_rows[b].name);

        if (!text)
            continue;
        given++;
        t->r.budget = (enum budget)b;
        if (budget_parse((enum budget)b, text, &t->r.target, &err) < 0)
            return cli_fail(&err, CLI_USAGE);
    }
    if (given != 1)
        return refuse(a,
                      given ? "one budget at a time, not"
                            : "what is the budget? Give --params 180M or another of the options,"
                              " not",
                      given ? "several" : "none");
    return cli_has(a, "match") ? match(a, t) : 0;
}

// What is likely meant when --by is not given.
static enum solve_by usual_way(enum budget b)
{
    return b == BUDGET_TRAIN_FLOPS ? SOLVE_TOKENS : b == BUDGET_KV ? SOLVE_HEADS : SOLVE_FFN;
}

static int parse_way(const struct cli_args *a, struct task *t)
{
    const char *text = cli_value(a, "by");
    int by = 0;

    if (!text) {
        t->r.by = usual_way(t->r.budget);
        return 0;
    }
    while (solve_names[by] && strcmp(solve_names[by], text))
        by++;
    t->r.by = (enum solve_by)by;
    return solve_names[by] ? 0
                           : refuse(a, "--by takes ffn, heads, depth, width or tokens, not", text);
}

// "0,17,3-5"
static int parse_locks(const struct cli_args *a, int n_layers, struct task *t)
{
    const char *text = cli_value(a, "lock"), *at = text;

    while (at && *at) {
        char *end;
        long first = strtol(at, &end, 10), last = first;

        if (end == at)
            return refuse(a, "--lock takes layers like 0,17 or 3-5, not", text);
        if (*end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
        }
        if (end == at || first < 0 || last < first || last >= n_layers || (*end && *end != ','))
            return refuse(a, "--lock takes layers like 0,17 or 3-5 that the profile has, not",
                          text);
        for (long i = first; i <= last; i++)
            t->locked[i] = true;
        at = *end ? end + 1 : end;
    }
    t->r.locked = t->locked;
    return 0;
}

static int parse_task(const struct cli_args *a, const struct spec *s, struct task *t)
{
    const char *tolerance = cli_value(a, "tolerance");
    int rc;

    *t = (struct task){.tolerance = 0.01};
    if (tolerance && (!unit_parse_float(tolerance, &t->tolerance) || t->tolerance < 0))
        return refuse(a, "--tolerance is a share like 0.2%, not", tolerance);
    if ((rc = parse_target(a, t)) || (rc = parse_way(a, t)))
        return rc;
    return parse_locks(a, s->model.n_layers, t);
}

// ---- the answer ---------------------------------------------------------------------------------

static char *signed_text(enum budget b, double v, char *out)
{
    char text[UNIT_SIZE];

    snprintf(out, UNIT_SIZE + 1, "%s%s", v < 0 ? "-" : "+", budget_text(b, fabs(v), text));
    return out;
}

// Lines for the head of the file and for people.
static char *report(const struct spec *from, const struct task *t, const struct solved *s)
{
    const struct solve_request *r = &t->r;
    struct buf out = {0};
    char v[UNIT_SIZE], target[UNIT_SIZE], off[UNIT_SIZE + 1];

    buf_fmt(&out, "%s by %s to %s = %s%s%s\n", from->name, solve_names[r->by],
            budget_rows[r->budget].name, budget_text(r->budget, r->target, target),
            t->other[0] ? " of " : "", t->other);
    buf_fmt(&out, "result %s, residual %s (%+.3f%%)", budget_text(r->budget, s->value, v),
            s->residual == 0 ? "0" : signed_text(r->budget, s->residual, off),
            100 * s->residual / r->target);
    if (s->why[0])
        buf_fmt(&out, ": %s", s->why);
    buf_fmt(&out, "\n");
    if (!isnan(s->other))
        buf_fmt(&out, "next on the other side: %s (%+.3f%%)\n", budget_text(r->budget, s->other, v),
                100 * (s->other - r->target) / r->target);
    if (r->by == SOLVE_FFN || r->by == SOLVE_HEADS)
        buf_fmt(&out, "layers moved: %d of %d\n", s->moved, from->model.n_layers);
    return out.data;
}

static json_t *number(double v)
{
    return isnan(v) ? json_null() : json_real(v);
}

static json_t *to_json(const struct task *t, const struct solved *s, bool met)
{
    const struct solve_request *r = &t->r;

    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:o, s:b, s:i, s:s, s:o, s:o}", "budget",
                     budget_rows[r->budget].name, "by", solve_names[r->by], "target", r->target,
                     "value", s->value, "residual", s->residual, "relative",
                     s->residual / r->target, "other", number(s->other), "met", met, "moved",
                     s->moved, "why", s->why, "count", count_to_json(&s->spec, &s->count),
                     "profile", profile_to_json(&s->spec));
}

static int print_profile(const struct cli_args *a, const char *lines, const struct solved *s)
{
    const char *path = cli_value(a, "out");
    struct err err = ERR_INIT;
    char *text = profile_to_yaml(&s->spec, lines);
    int rc = CLI_OK;

    if (path && file_write_shared(path, text, strlen(text), &err) < 0)
        rc = cli_fail(&err, CLI_INPUT);
    else if (!path)
        fputs(text, stdout);
    free(text);
    return rc;
}

int cmd_solve(const struct cli_command *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct spec from;
    struct task t;
    struct solved s;
    struct err err = ERR_INIT;
    char *lines;
    bool met;
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc || (rc = cli_profile(&a, a.operand[0], &from)) || (rc = parse_task(&a, &from, &t)))
        return rc;
    if (solve(&from, &t.r, &s, &err) < 0)
        return cli_fail(&err, CLI_NO);
    met = fabs(s.residual) <= t.tolerance * t.r.target;
    lines = report(&from, &t, &s);
    if (!cli_has(&a, "json")) {
        fputs(lines, stderr);
        rc = print_profile(&a, lines, &s);
    } else {
        cli_print_json(to_json(&t, &s, met));
        rc = cli_has(&a, "out") ? print_profile(&a, lines, &s) : CLI_OK;
    }
    if (!met)
        fprintf(stderr, "not within %g%% of the budget\n", 100 * t.tolerance);
    free(lines);
    return rc ? rc : met ? CLI_OK : CLI_NO;
}

// ---- lathe grid ---------------------------------------------------------------------------------

enum { MAX_AXIS = 64 };

struct grid {
    struct task t;
    int depth[MAX_AXIS], n_depths, heads[MAX_AXIS], n_heads;
};

// "12,14,18" to numbers; -1 when it is no such list.
static int parse_numbers(const char *text, int *out)
{
    int n = 0;

    for (const char *at = text; n < MAX_AXIS;) {
        char *end;
        long v = strtol(at, &end, 10);

        if (end == at || v < 1 || v > 65536 || (*end && *end != ','))
            return -1;
        out[n++] = (int)v;
        if (!*end)
            return n;
        at = end + 1;
    }
    return -1;
}

static int parse_axes(const struct cli_args *a, const struct spec *s, struct grid *g)
{
    const char *depths = cli_value(a, "depths"), *heads = cli_value(a, "heads");

    g->n_depths =
        depths ? parse_numbers(depths, g->depth) : variant_usual_depths(s, g->depth, MAX_AXIS);
    g->n_heads =
        heads ? parse_numbers(heads, g->heads) : variant_usual_heads(s, g->heads, MAX_AXIS);
    if (g->n_depths < 1)
        return refuse(a, "--depths takes numbers like 12,14,18, not", depths);
    if (g->n_heads < 1)
        return refuse(a, "--heads takes numbers like 6,9,12, not", heads ? heads : "none");
    return 0;
}

// Without a budget the profile's own parameters are it.
static int parse_grid(const struct cli_args *a, const struct spec *s, struct grid *g)
{
    bool has_budget = cli_has(a, "match");
    struct count c;
    int rc;

    for (int b = 0; b < BUDGET_KINDS; b++)
        has_budget |= cli_has(a, budget_rows[b].name);
    *g = (struct grid){.t.tolerance = 0.01};
    if (has_budget && (rc = parse_target(a, &g->t)))
        return rc;
    if (!has_budget) {
        count_model(s, &c);
        g->t.r.target = (double)c.total;
    }
    return parse_axes(a, s, g);
}

static json_t *point_json(const struct spec *s, const struct count *c, double value, double target)
{
    const struct model_spec *m = &s->model;

    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f}", "name", s->name, "n_layers",
                     m->n_layers, "n_heads", m->lane[LANE_HEADS][0], "n_kv_heads",
                     m->lane[LANE_KV][0], "ffn_width", m->lane[LANE_FFN][0], "value", value,
                     "residual", value - target, "params", (double)c->total, "forward_per_token",
                     c->forward_per_token);
}

static int save_point(const struct cli_args *a, const struct spec *s)
{
    struct err err = ERR_INIT;
    char *path, *text;
    int rc = 0;

    if (!cli_has(a, "out"))
        return 0;
    path = xasprintf("%s/%s.yaml", cli_value(a, "out"), s->name);
    text = profile_to_yaml(s, "a uniform design of the same budget: lathe grid");
    if (file_mkdirs(cli_value(a, "out"), 0777, &err) < 0 ||
        file_write_shared(path, text, strlen(text), &err) < 0)
        rc = cli_fail(&err, CLI_INPUT);
    free(text);
    free(path);
    return rc;
}

static void print_point(const struct grid *g, const struct spec *s, const struct count *c,
                        double value)
{
    const struct model_spec *m = &s->model;
    char v[UNIT_SIZE], f[UNIT_SIZE];

    printf("%6d %5d/%-4d %9d %17s %+8.3f%% %15s\n", m->n_layers, m->lane[LANE_HEADS][0],
           m->lane[LANE_KV][0], m->lane[LANE_FFN][0], budget_text(g->t.r.budget, value, v),
           100 * (value - g->t.r.target) / g->t.r.target,
           unit_thousands(f, (int64_t)c->forward_per_token));
}

// One depth with one number of heads. What the profile forbids is said and left out.
static int grid_point(const struct cli_args *a, const struct grid *g, const struct spec *base,
                      int depth, int heads, json_t *list)
{
    struct spec s;
    struct count c;
    struct err err = ERR_INIT;
    double value;

    if (variant_uniform(base, depth, heads, g->t.r.budget, g->t.r.target, &s, &err) < 0) {
        fprintf(stderr, "%d layers, %d heads: %s\n", depth, heads, err.text);
        return 0;
    }
    count_model(&s, &c);
    value = budget_value(g->t.r.budget, &s, &c);
    json_array_append_new(list, point_json(&s, &c, value, g->t.r.target));
    if (!cli_has(a, "json"))
        print_point(g, &s, &c, value);
    return save_point(a, &s);
}

static bool is_near(const struct grid *g, const json_t *point)
{
    double off = json_number_value(json_object_get(point, "residual"));

    return fabs(off) <= g->t.tolerance * g->t.r.target;
}

int cmd_grid(const struct cli_command *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct spec base;
    struct grid g;
    json_t *list, *point;
    char target[UNIT_SIZE];
    size_t at;
    bool near = false;
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc || (rc = cli_profile(&a, a.operand[0], &base)) || (rc = parse_grid(&a, &base, &g)))
        return rc;
    if (!cli_has(&a, "json"))
        printf("uniform designs with %s = %s, ffn_width in steps of %d\n\n"
               "layers heads/kv  ffn_width %17s  to target     FLOPs/token\n",
               budget_rows[g.t.r.budget].name, budget_text(g.t.r.budget, g.t.r.target, target),
               base.model.ffn_step, budget_rows[g.t.r.budget].name);
    list = json_array();
    for (int i = 0; i < g.n_depths && !rc; i++)
        for (int k = 0; k < g.n_heads && !rc; k++)
            rc = grid_point(&a, &g, &base, g.depth[i], g.heads[k], list);
    json_array_foreach(list, at, point) near = near || is_near(&g, point);
    if (cli_has(&a, "json") && !rc)
        cli_print_json(list);
    else
        json_decref(list);
    if (!rc && !near)
        fprintf(stderr, "none of them is within %g%% of the budget\n", 100 * g.t.tolerance);
    return rc ? rc : near ? CLI_OK : CLI_NO;
}
