// lathe shape: controls for a shape. lathe diff: two profiles beside each other.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/cli.h"
#include "engine/confound.h"
#include "engine/file.h"
#include "engine/ledger.h"
#include "engine/variant.h"

// ---- lathe shape --------------------------------------------------------------------------------

static int shape_usage(const char *what)
{
    fprintf(stderr, "lathe shape: %s\nlathe help shape shows its options\n", what);
    return CLI_USAGE;
}

static int parse_variant(const struct cli_args *a, enum variant *v, uint64_t *seed)
{
    const char *text = cli_value(a, "permute");
    int given = 0;
    int64_t n = 0;

    for (int i = 0; i < VARIANTS; i++)
        if (cli_has(a, variant_names[i])) {
            *v = (enum variant)i;
            given++;
        }
    if (given != 1)
        return shape_usage("give one of --reverse, --permute SEED and --average");
    if (text && (!unit_parse_count(text, &n) || n < 0))
        return shape_usage("--permute takes a seed like 1");
    *seed = (uint64_t)n;
    return 0;
}

static int write_yaml(const struct cli_args *a, const struct spec *s, const char *comment)
{
    const char *path = cli_value(a, "out");
    char *text = profile_to_yaml(s, comment);
    struct err err = ERR_INIT;
    int rc = CLI_OK;

    if (!path)
        fputs(text, stdout);
    else if (file_write_shared(path, text, strlen(text), &err) < 0)
        rc = cli_fail(&err, CLI_INPUT);
    free(text);
    return rc;
}

int cmd_shape(const struct cli_command *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct spec from, s;
    struct err err = ERR_INIT;
    enum variant v;
    uint64_t seed;
    char *comment;
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc || (rc = cli_profile(&a, a.operand[0], &from)) || (rc = parse_variant(&a, &v, &seed)))
        return rc;
    if (variant_make(&from, v, seed, &s, &err) < 0)
        return cli_fail(&err, CLI_NO);
    comment = xasprintf("%s of %s: a control for its shape", variant_names[v], from.name);
    if (!cli_has(&a, "json"))
        rc = write_yaml(&a, &s, comment);
    else
        cli_print_json(profile_to_json(&s));
    free(comment);
    return rc;
}

// ---- lathe diff ---------------------------------------------------------------------------------

struct side {
    struct spec spec;
    struct count count;
};

static void print_ledger(const struct side *a, const struct side *b)
{
    char x[UNIT_SIZE], y[UNIT_SIZE], change[16];

    printf("%-14s %22.22s %22.22s\n", "", a->spec.name, b->spec.name);
    for (int row = 0; row < LEDGER_ROWS; row++) {
        double va = ledger_value(row, &a->spec, &a->count);
        double vb = ledger_value(row, &b->spec, &b->count);

        printf("%-14s %22s %22s %9s%s\n", ledger_name(row), ledger_text(row, va, x),
               ledger_text(row, vb, y), change_text(change, vb, va),
               ledger_confounds(row) && fabs(vb - va) > CONFOUND_TOLERANCE * va ? " !" : "");
    }
    printf("! more than %g%% apart\n", 100 * CONFOUND_TOLERANCE);
}

static bool layer_differs(const struct side *a, const struct side *b, int i)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (a->spec.model.lane[lane][i] != b->spec.model.lane[lane][i])
            return true;
    return false;
}

static void print_layer(const struct side *s, int i)
{
    const struct model_spec *m = &s->spec.model;
    char params[UNIT_SIZE];

    if (i < m->n_layers)
        printf(" %6d %4d/%-3d %3d %11s |", m->lane[LANE_FFN][i], m->lane[LANE_HEADS][i],
               m->lane[LANE_KV][i], m->lane[LANE_REUSE][i],
               unit_thousands(params, s->count.layer[i].params));
    else
        printf(" %6s %8s %3s %11s |", "-", "-", "-", "-");
}

static void print_layers(const struct side *a, const struct side *b)
{
    int na = a->spec.model.n_layers, nb = b->spec.model.n_layers, n = na > nb ? na : nb, same = 0;

    printf("\nlayer ffn_width heads/kv reuse   params |                 of %.24s\n", b->spec.name);
    for (int i = 0; i < n; i++) {
        if (i < na && i < nb && !layer_differs(a, b, i)) {
            same++;
            continue;
        }
        printf("%5d", i);
        print_layer(a, i);
        print_layer(b, i);
        if (i < na && i < nb)
            printf(" %+d", b->spec.model.lane[LANE_FFN][i] - a->spec.model.lane[LANE_FFN][i]);
        putchar('\n');
    }
    printf("%d layer%s alike\n", same, same == 1 ? " is" : "s are");
}

static void print_keys(const struct side *a, const struct side *b)
{
    bool any = false;

    for (int i = 0; i < spec_key_count; i++) {
        struct buf x = {0}, y = {0};

        if (spec_keys[i].type == KEY_LANE ||
            !confound_key_differs(&spec_keys[i], &a->spec, &b->spec))
            continue;
        if (!any)
            printf("\nkeys\n");
        any = true;
        profile_value_text(&spec_keys[i], &a->spec, &x);
        profile_value_text(&spec_keys[i], &b->spec, &y);
        printf("  %-24s %.25s -> %.25s\n", spec_keys[i].path, x.data, y.data);
        buf_release(&x);
        buf_release(&y);
    }
}

static void print_confounds(const struct confounds *c)
{
    if (c->n)
        printf("\nbesides the shape\n");
    else
        printf(c->same_shape ? "\nnothing differs\n" : "\nnothing but the shape differs\n");
    for (int i = 0; i < c->n; i++)
        printf("  %s %s\n      %s\n", c->v[i].severe ? "!" : "-", c->v[i].text, c->v[i].remedy);
}

static json_t *ledger_json(const struct side *a, const struct side *b)
{
    json_t *j = json_object();

    for (int row = 0; row < LEDGER_ROWS; row++)
        json_object_set_new(j, ledger_name(row),
                            json_pack("[f, f]", ledger_value(row, &a->spec, &a->count),
                                      ledger_value(row, &b->spec, &b->count)));
    return j;
}

static json_t *keys_json(const struct side *a, const struct side *b)
{
    json_t *j = json_object();

    for (int i = 0; i < spec_key_count; i++) {
        struct buf x = {0}, y = {0};

        if (!confound_key_differs(&spec_keys[i], &a->spec, &b->spec))
            continue;
        profile_value_text(&spec_keys[i], &a->spec, &x);
        profile_value_text(&spec_keys[i], &b->spec, &y);
        json_object_set_new(j, spec_keys[i].path, json_pack("[s?, s?]", x.data, y.data));
        buf_release(&x);
        buf_release(&y);
    }
    return j;
}

static json_t *diff_json(const struct side *a, const struct side *b, const struct confounds *c)
{
    json_t *list = json_array();

    for (int i = 0; i < c->n; i++)
        json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "text", c->v[i].text, "severe",
                                              c->v[i].severe, "remedy", c->v[i].remedy));
    return json_pack("{s:[s, s], s:o, s:o, s:o, s:[o, o]}", "names", a->spec.name, b->spec.name,
                     "ledger", ledger_json(a, b), "keys", keys_json(a, b), "confounds", list,
                     "count", count_to_json(&a->spec, &a->count),
                     count_to_json(&b->spec, &b->count));
}

int cmd_diff(const struct cli_command *cmd, int argc, char **argv)
{
    struct cli_args args;
    struct side a, b;
    struct confounds c;
    int rc = cli_parse(cmd, argc, argv, &args);

    if (rc || (rc = cli_profile(&args, args.operand[0], &a.spec)) ||
        (rc = cli_profile(&args, args.operand[1], &b.spec)))
        return rc;
    count_model(&a.spec, &a.count);
    count_model(&b.spec, &b.count);
    confounds_between(&a.spec, &a.count, &b.spec, &b.count, &c);
    if (cli_has(&args, "json")) {
        cli_print_json(diff_json(&a, &b, &c));
    } else {
        print_ledger(&a, &b);
        print_layers(&a, &b);
        print_keys(&a, &b);
        print_confounds(&c);
    }
    return cli_has(&args, "strict") && c.severe ? CLI_NO : CLI_OK;
}
