// lathe solve: a profile moved onto a budget.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/cli.h"
#include "engine/file.h"
#include "engine/solve.h"

struct task {
    struct solve_request r;
    bool locked[SPEC_MAX_LAYERS];
    double tolerance;
    char other[SPEC_NAME_SIZE]; // the profile that was matched
};

static int refuse(const char *what, const char *subject)
{
    fprintf(stderr, "lathe solve: %s '%s'\nlathe help solve shows its options\n", what, subject);
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
        return refuse("--count takes params, non-embedding, flops, train-flops, memory or kv, not",
                      count);
    plain.n_set = 0; // --set is for the profile that moves
    if ((rc = cli_profile(&plain, cli_value(a, "match"), &other)))
        return rc;
    count_model(&other, &c);
    t->r.target = budget_value(t->r.budget, &other, &c);
    memcpy(t->other, other.name, sizeof t->other);
    return t->r.target > 0 ? 0 : refuse("there is nothing to match in", other.name);
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
        return refuse(given ? "one budget at a time; given was more than"
                            : "what is the budget? Give --params 180M or another of the options,"
                              " not",
                      given ? "one" : "none");
    return cli_has(a, "match") ? match(a, t) : 0;
}

// What is likely meant when --by is not given.
static enum solve_by usual_way(enum budget b)
{
    return b == BUDGET_TRAIN_FLOPS ? SOLVE_TOKENS : b == BUDGET_KV ? SOLVE_HEADS : SOLVE_FFN;
}

static int parse_way(const char *text, struct task *t)
{
    int by = 0;

    if (!text) {
        t->r.by = usual_way(t->r.budget);
        return 0;
    }
    while (solve_names[by] && strcmp(solve_names[by], text))
        by++;
    t->r.by = (enum solve_by)by;
    return solve_names[by] ? 0 : refuse("--by takes ffn, heads, depth, width or tokens, not", text);
}

// "0,17,3-5"
static int parse_locks(const char *text, int n_layers, struct task *t)
{
    const char *at = text;

    while (at && *at) {
        char *end;
        long first = strtol(at, &end, 10), last = first;

        if (end == at)
            return refuse("--lock takes layers like 0,17 or 3-5, not", text);
        if (*end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
        }
        if (end == at || first < 0 || last < first || last >= n_layers || (*end && *end != ','))
            return refuse("--lock takes layers like 0,17 or 3-5 that the profile has, not", text);
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
        return refuse("--tolerance is a share like 0.2%, not", tolerance);
    if ((rc = parse_target(a, t)) || (rc = parse_way(cli_value(a, "by"), t)))
        return rc;
    return parse_locks(cli_value(a, "lock"), s->model.n_layers, t);
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

    if (path && file_write_atomic(path, text, strlen(text), &err) < 0)
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
