// lathe probe: one micro-batch's loss, logits, weights and gradients in one file.
#include <stdio.h>
#include <string.h>

#include "engine/cli.h"
#include "engine/probe.h"

static int check_options(const struct cli_args *a)
{
    const char *missing = !cli_has(a, "out")                                  ? "--out FILE"
                          : !cli_has(a, "tokens") && !cli_has(a, "init-only") ? "--tokens FILE"
                                                                              : NULL;

    if (missing) {
        fprintf(stderr, "lathe probe: %s is missing\nlathe help probe shows its options\n",
                missing);
        return CLI_USAGE;
    }
    if (cli_has(a, "init-only") && (cli_has(a, "tokens") || cli_has(a, "weights"))) {
        fprintf(stderr, "lathe probe: --init-only writes the initial weights; it takes neither "
                        "--tokens nor --weights\n");
        return CLI_USAGE;
    }
    return 0;
}

static void print_result(const struct cli_args *a, const struct spec *s,
                         const struct probe_result *r)
{
    const char *out = cli_value(a, "out");
    long long tokens = (long long)s->train.micro_batch_size * s->train.seq_len;
    bool ran = !cli_has(a, "init-only");

    if (cli_has(a, "json"))
        cli_print_json(ran ? json_pack("{s:s, s:i, s:f, s:f, s:I}", "out", out, "tensors",
                                       r->tensors, "loss", r->loss, "loss_total", r->loss_total,
                                       "tokens", (json_int_t)tokens)
                           : json_pack("{s:s, s:i}", "out", out, "tensors", r->tensors));
    else if (ran && s->gate.enabled)
        printf("loss %.7g, with the gates' regulariser %.7g, over %lld tokens; %d tensors in %s\n",
               r->loss, r->loss_total, tokens, r->tensors, out);
    else if (ran)
        printf("loss %.7g over %lld tokens; %d tensors in %s\n", r->loss, tokens, r->tensors, out);
    else
        printf("initial weights, %d tensors in %s\n", r->tensors, out);
}

static int with_backend(const struct cli_args *a, const struct spec *s, struct probe *p,
                        struct err *err)
{
    const char *name = cli_value(a, "backend");
    struct probe_result r;
    char why[256] = "";
    int rc;

    p->be = backend_open(name && strcmp(name, "auto") ? name : "cpu", s->train.threads, why,
                         sizeof why);
    if (!p->be)
        return err_set(err, "backend '%s' is not available: %s", name ? name : "cpu", why);
    rc = probe_write(p, cli_value(a, "out"), &r, err);
    backend_close(p->be);
    if (rc == 0)
        print_result(a, s, &r);
    return rc;
}

static int with_tokens(const struct cli_args *a, const struct spec *s, struct err *err)
{
    struct probe p = {.spec = s, .weights = cli_value(a, "weights")};
    struct shard shard;
    int rc;

    if (cli_has(a, "init-only"))
        return with_backend(a, s, &p, err);
    if (shard_open(&shard, cli_value(a, "tokens"), s->data.dtype, err) < 0)
        return -1;
    p.tokens = &shard;
    rc = with_backend(a, s, &p, err);
    shard_close(&shard);
    return rc;
}

int cmd_probe(const struct cli_command *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct spec spec;
    struct err err = ERR_INIT;
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc || (rc = check_options(&a)) || (rc = cli_profile(&a, a.operand[0], &spec)))
        return rc;
    return with_tokens(&a, &spec, &err) < 0 ? cli_fail(&err, CLI_INPUT) : CLI_OK;
}
