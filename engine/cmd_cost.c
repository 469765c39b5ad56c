// lathe cost: what training a profile takes on this machine, predicted from a slice of it.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/cli.h"
#include "engine/cost.h"

// One device: the prediction, and with --check what real steps took.
struct answer {
    struct cost cost;
    struct cost_measured measured; // passes 0: not asked for
    double ratio;                  // predicted / measured tokens/s
};

// ---- measuring ----------------------------------------------------------------------------------

// With a trial its steps and those of the calibration take turns, so that both meet the same machine.
static int run_job(struct cost_job *j, const struct spec *s, const char *backend, bool check,
                   struct answer *a, struct err *err)
{
    struct cost_trial *t = NULL;
    int rc = cost_step(j, err); // says whether it fits

    if (rc > 0 && check && !(t = cost_trial_new(s, backend, err)))
        return -1;
    while (rc > 0)
        rc = t && cost_trial_step(t, err) < 0 ? -1 : cost_step(j, err);
    a->cost = *cost_result(j);
    if (rc == 0 && t) {
        cost_trial_result(t, &a->measured);
        a->ratio = a->cost.tokens_per_s / a->measured.tokens_per_s;
    }
    cost_trial_free(t);
    return rc;
}

static int ask(const struct spec *s, const char *backend, bool check, struct answer *a,
               struct err *err)
{
    struct cost_job *j = cost_new(s, backend);
    int rc = run_job(j, s, backend, check, a, err);

    cost_free(j);
    return rc;
}

// ---- in words -----------------------------------------------------------------------------------

static void print_speed(const struct cost *c)
{
    char n[UNIT_SIZE];

    printf("%-12s %12s  tokens/s\n", "speed", unit_thousands(n, llround(c->tokens_per_s)));
    printf(
        "%-12s %12.4g  seconds: layers %.3g, output matrix %.3g, optimizer %.3g, embedding %.3g\n",
        "step", c->seconds_per_step, c->layers_s, c->head_s, c->optim_s, c->embed_s);
}

static void print_run(const struct cost *c)
{
    char total[UNIT_SIZE], tokens[UNIT_SIZE], steps[UNIT_SIZE], eval[UNIT_SIZE];

    printf("%-12s %12s  %s tokens, %s steps", "planned run", unit_duration(total, c->seconds_total),
           unit_thousands(tokens, c->tokens), unit_thousands(steps, c->steps));
    if (isfinite(c->seconds_per_eval))
        printf(", %lld evaluation%s of %s", (long long)c->evaluations,
               c->evaluations == 1 ? "" : "s", unit_duration(eval, c->seconds_per_eval));
    else if (c->evaluations)
        printf("; without its evaluations: data.val is not here");
    printf("; without checkpoints\n");
}

static void print_memory(const struct cost *c)
{
    char most[UNIT_SIZE], step[UNIT_SIZE], have[UNIT_SIZE];

    printf("%-12s %12s  at most; %s between checkpoints", "memory",
           unit_bytes(most, (double)c->memory_bytes),
           unit_bytes(step, (double)c->memory_step_bytes));
    if (c->memory_available >= 0)
        printf("; %s available", unit_bytes(have, c->memory_available));
    printf("\n");
}

static void print_calibration(const struct cost *c)
{
    char took[UNIT_SIZE], vocab[UNIT_SIZE];

    printf("%-12s %12s  %d steps of %d layers, %lld x %d tokens, vocabulary %s; the middle "
           "half within %.0f %%\n",
           "calibration", unit_duration(took, c->calibration_s), c->passes, c->slice_layers,
           (long long)c->slice_rows / c->slice_seq_len, c->slice_seq_len,
           unit_thousands(vocab, c->slice_vocab), 100 * c->spread);
    if (c->cores < 0.85 * c->threads)
        printf("%-12s %12s  other work had %.1f of %d cores meanwhile: a free machine is faster\n",
               "", "", c->threads - c->cores, c->threads);
    printf("%-12s %12s  of the measured speed, on all presets of `make bench` where this was "
           "written\n",
           "uncertainty", "within 20 %");
}

static void print_check(const struct answer *a)
{
    char speed[UNIT_SIZE], memory[UNIT_SIZE];

    printf("%-12s %12s  tokens/s in %d micro-batches: predicted / measured = %.3f, %s 20 %%\n",
           "measured", unit_thousands(speed, llround(a->measured.tokens_per_s)), a->measured.passes,
           a->ratio, fabs(a->ratio - 1) <= COST_WITHIN ? "within" : "not within");
    if (a->measured.memory_bytes >= 0)
        printf("%-12s %12s  of memory for the model\n", "",
               unit_bytes(memory, (double)a->measured.memory_bytes));
}

static void print_answer(const struct spec *s, const struct answer *a)
{
    const struct cost *c = &a->cost;

    printf("%s on %s: %d thread%s, %s\n", s->name, c->backend, c->threads,
           c->threads == 1 ? "" : "s", c->library);
    if (!c->fits) {
        printf("%s\n", c->why);
        return;
    }
    print_speed(c);
    print_run(c);
    print_memory(c);
    print_calibration(c);
    if (a->measured.passes)
        print_check(a);
}

// ---- as JSON ------------------------------------------------------------------------------------

static json_t *answer_json(const struct answer *a)
{
    const struct cost_measured *m = &a->measured;
    json_t *j = cost_to_json(&a->cost);

    if (m->passes)
        json_object_set_new(j, "measured",
                            json_pack("{s:f, s:f, s:i, s:f, s:f, s:I}", "tokens_per_s",
                                      m->tokens_per_s, "seconds_per_step", m->seconds_per_step,
                                      "passes", m->passes, "cores", m->cores, "ratio", a->ratio,
                                      "memory_bytes", (json_int_t)m->memory_bytes));
    return j;
}

// ---- the command --------------------------------------------------------------------------------

static bool is_no(const struct answer *a)
{
    return !a->cost.fits || (a->measured.passes && fabs(a->ratio - 1) > COST_WITHIN);
}

// The GPU where nobody said which device: gpu is its answer, or why says that there is none.
static bool ask_gpu(const struct spec *s, bool check, struct answer *gpu, struct err *why)
{
    return ask(s, "cuda", check, gpu, why) == 0;
}

int cmd_cost(const struct cli_command *cmd, int argc, char **argv)
{
    struct cli_args args;
    struct spec spec;
    struct answer a = {0}, gpu = {0};
    struct err err = ERR_INIT, why = ERR_INIT;
    int rc = cli_parse(cmd, argc, argv, &args);
    const char *backend;
    bool both, check, has_gpu;

    if (rc || (rc = cli_profile(&args, args.operand[0], &spec)))
        return rc;
    backend = cli_value(&args, "backend");
    both = !backend || !strcmp(backend, "auto");
    check = cli_has(&args, "check");
    if (ask(&spec, both ? "cpu" : backend, check, &a, &err) < 0)
        return cli_fail(&err, CLI_INPUT);
    has_gpu = both && ask_gpu(&spec, check, &gpu, &why);
    if (cli_has(&args, "json")) {
        json_t *j = answer_json(&a);

        json_object_set_new(j, "name", json_string(spec.name));
        if (both)
            json_object_set_new(j, "gpu",
                                has_gpu ? answer_json(&gpu) : json_pack("{s:s}", "why", why.text));
        cli_print_json(j);
    } else {
        print_answer(&spec, &a);
        if (has_gpu)
            print_answer(&spec, &gpu);
        else if (both)
            printf("%-12s %12s  %s\n", "GPU", "none", why.text);
    }
    return is_no(&a) ? CLI_NO : CLI_OK;
}
