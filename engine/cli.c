#include "engine/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/file.h"

#ifndef LATHE_VERSION
#define LATHE_VERSION "0.1"
#endif

static int cmd_help(const struct cli_command *cmd, int argc, char **argv);

static const struct cli_option no_options[] = {{NULL, NULL, NULL}};

// Options every command takes.
static const struct cli_option common_options[] = {
    {"runs", "DIR", "directory of the runs (default $LATHE_RUNS, else ./runs)"},
    {"help", NULL, "this text"},
    {NULL, NULL, NULL},
};

static const struct cli_option profile_options[] = {
    {"set", "KEY=VALUE", "change one key of the profile; may be repeated"},
    {"json", NULL, "print JSON"},
    {NULL, NULL, NULL},
};

static const struct cli_option count_options[] = {
    {"flops", "NAMES",
     "also as others count: palm,chinchilla,kaplan,released-a,released-b,… or all"},
    {"sparsity", "S", "share of (token, layer) pairs that gates skip, 0 to 1, for --flops"},
    {"set", "KEY=VALUE", "change one key of the profile; may be repeated"},
    {"json", NULL, "print JSON"},
    {NULL, NULL, NULL},
};

static const struct cli_option cost_options[] = {
    {"check", NULL, "also train some real steps and compare (exit 3: not within 20 %)"},
    {"backend", "NAME", "auto (default: the CPU, and a GPU where there is one), cpu or cuda"},
    {"set", "KEY=VALUE", "change one key of the profile; may be repeated"},
    {"json", NULL, "print JSON"},
    {NULL, NULL, NULL},
};

static const struct cli_option diff_options[] = {
    {"strict", NULL, "exit 3 when something besides the shape differs that forbids a verdict"},
    {"set", "KEY=VALUE", "change one key of both; may be repeated"},
    {"json", NULL, "print JSON"},
    {NULL, NULL, NULL},
};

static const struct cli_option shape_options[] = {
    {"reverse", NULL, "layer i becomes layer L-1-i"},
    {"permute", "SEED", "the same layers in a random order"},
    {"average", NULL, "every layer with the mean widths"},
    {"out", "FILE", "write the profile there"},
    {"set", "KEY=VALUE", "change one key of the profile first; may be repeated"},
    {"json", NULL, "print JSON"},
    {NULL, NULL, NULL},
};

// The quantities are the rows of budget.h.
static const struct cli_option solve_options[] = {
    {"params", "N", "all parameters, like 180M"},
    {"non-embedding", "N", "parameters without input embedding and positions"},
    {"flops", "N", "per token, forward, full attention"},
    {"train-flops", "N", "of the planned run, like 5e18"},
    {"memory", "N", "bytes of training, like 8GiB"},
    {"kv", "N", "bytes of keys and values per token"},
    {"match", "PROFILE", "what that profile has"},
    {"count", "NAME", "of which quantity, with --match (default params)"},
    {"by", "WAY", "ffn (usual), heads, depth, width (d_model) or tokens (length of the run)"},
    {"lock", "LAYERS", "that must not move: 0,17 or 3-5"},
    {"tolerance", "SHARE", "exit 3 when further from the budget (default 1%)"},
    {"out", "FILE", "write the profile there"},
    {"set", "KEY=VALUE", "change one key of the profile first; may be repeated"},
    {"json", NULL, "print JSON, the profile in it"},
    {NULL, NULL, NULL},
};

static const struct cli_option grid_options[] = {
    {"params", "N", "all parameters, like 180M (default: the profile's own)"},
    {"non-embedding", "N", "or another quantity: as with solve"},
    {"flops", "N", ""},
    {"train-flops", "N", ""},
    {"memory", "N", ""},
    {"kv", "N", ""},
    {"match", "PROFILE", "what that profile has"},
    {"count", "NAME", "of which quantity, with --match (default params)"},
    {"depths", "LIST", "numbers of layers (default 2/3 to 4/3 of the profile's)"},
    {"heads", "LIST", "query heads (default half, three quarters and all of d_model)"},
    {"out", "DIR", "write the profiles there"},
    {"set", "KEY=VALUE", "change one key of the profile first; may be repeated"},
    {"json", NULL, "a list of objects"},
    {NULL, NULL, NULL},
};

static const struct cli_option data_prepare_options[] = {
    {"out", "DIR", "where train.bin and val.bin go (default $LATHE_DATA/NAME, else data/NAME)"},
    {"seed", "N", "of the split and of the order of documents (default 1)"},
    {"val-share", "S", "share of the documents held out (default 0.5%; 0 = none)"},
    {"separator", "TEXT", "cut files here instead of at blank lines; \\n and \\t are understood"},
    {"force", NULL, "prepare again and replace what is there"},
    {"json", NULL, "the result as JSON"},
    {NULL, NULL, NULL},
};

static const struct cli_option data_audit_options[] = {
    {"vocab", "N", "vocabulary of the model (default the file's own)"},
    {"dtype", "u16|u32", "type of the ids of a file without header"},
    {"json", NULL, "the result as JSON"},
    {NULL, NULL, NULL},
};

static const struct cli_option data_peek_options[] = {
    {"n", "N", "how many tokens (default 100)"},
    {"offset", "K", "the first one (default 0)"},
    {"dtype", "u16|u32", "type of the ids of a file without header"},
    {"json", NULL, "the result as JSON"},
    {NULL, NULL, NULL},
};

static const struct cli_option train_options[] = {
    {"resume", "RUN", "continue a run from its newest good checkpoint"},
    {"run", "ID", "id of the new run (default: the profile's name and a number)"},
    {"set", "KEY=VALUE", "replace a value of the profile; may be repeated"},
    {"backend", "NAME", "auto (default) or cpu"},
    {"detach", NULL, "as a process of its own, then return"},
    {"quiet", NULL, "no progress lines"},
    {"json", NULL, "only the final status, as one JSON object"},
    {NULL, NULL, NULL},
};

static const struct cli_option probe_options[] = {
    {"tokens", "FILE", "token file; its first sequences are the micro-batch"},
    {"weights", "FILE", "safetensors with the model's tensors (default: the initial weights)"},
    {"out", "FILE", "where the safetensors file goes"},
    {"init-only", NULL, "write the initial weights only"},
    {"backend", "NAME", "auto (default), cpu, or ref: all in double precision"},
    {"set", "KEY=VALUE", "replace a value of the profile; may be repeated"},
    {"json", NULL, "the result as JSON"},
    {NULL, NULL, NULL},
};

static const struct cli_option eval_options[] = {
    {"data", "FILE", "token file (default: the run's data.val)"},
    {"step", "N", "of which checkpoint (default: the newest)"},
    {"max-tokens", "N", "score the first N targets only"},
    {"seq-len", "T", "tokens in a window (default: as trained)"},
    {"stride", "N", "one window each N tokens, at least T (default: T)"},
    {"avg", "HOW", "token (default), or chunk: the mean of the windows' means"},
    {"backend", "NAME", "auto (default), cpu, or ref: all in double precision"},
    {"json", NULL, "the result keyed by the metric names"},
    {NULL, NULL, NULL},
};

static const struct cli_option sample_options[] = {
    {"prompt", "TEXT", "what the text begins with"},
    {"prompt-file", "FILE", "the same from a file, or - for standard input"},
    {"prompt-ids", "IDS", "the same as token ids: 1,2,3; prints ids"},
    {"tokens", "N", "how many at most (default 200)"},
    {"temperature", "T", "1 as trained (default), 0 always the likeliest"},
    {"top-k", "K", "only the K likeliest"},
    {"seed", "N", "of the draws (default 1)"},
    {"no-stop", NULL, "go on behind an end of text"},
    {"step", "N", "of which checkpoint (default: the newest)"},
    {"backend", "NAME", "auto (default), cpu, or ref: all in double precision"},
    {"json", NULL, "text, ids, mean log probability and speed as JSON"},
    {NULL, NULL, NULL},
};

static const struct cli_option runs_options[] = {
    {"json", NULL, "a list of objects keyed by the metric names"},
    {NULL, NULL, NULL},
};

static const struct cli_option control_options[] = {
    {"json", NULL, "the status afterwards as a JSON object"},
    {NULL, NULL, NULL},
};

static const struct cli_option set_options[] = {
    {"json", NULL, "the change as a JSON object"},
    {NULL, NULL, NULL},
};

static const struct cli_option delete_options[] = {
    {"yes", NULL, "do not ask"},
    {NULL, NULL, NULL},
};

static const struct cli_option watch_options[] = {
    {"json", NULL, "all records of metrics.jsonl, from the first; with --once the status"},
    {"once", NULL, "print where the run stands and end"},
    {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
    {"count", "PROFILE", 1, 1, "parameters, FLOPs and memory, per layer and in total",
     count_options, cmd_count},
    {"cost", "PROFILE", 1, 1,
     "what training takes here: speed, time and memory, from seconds of calibration", cost_options,
     cmd_cost},
    {"check", "PROFILE", 1, 1, "all errors and warnings of a profile in one pass", profile_options,
     cmd_check},
    {"show", "PROFILE", 1, 1, "the resolved profile: every key, lists only", profile_options,
     cmd_show},
    {"solve", "PROFILE", 1, 1, "the profile moved onto a budget, as YAML", solve_options,
     cmd_solve},
    {"grid", "PROFILE", 1, 1, "the uniform designs of a budget: layers x heads x ffn_width",
     grid_options, cmd_grid},
    {"shape", "PROFILE", 1, 1, "a control for its shape: reversed, permuted or averaged, as YAML",
     shape_options, cmd_shape},
    {"diff", "A B", 2, 2, "what differs between two profiles, and what that confounds",
     diff_options, cmd_diff},
    {"data prepare", "[gcide|FILE…]", 0, -1,
     "make token files from the built-in corpus or from text, plain or gzip", data_prepare_options,
     cmd_data_prepare},
    {"data audit", "FILE", 1, 1,
     "judge whether a token file may be trained on (exit 3: it may not)", data_audit_options,
     cmd_data_audit},
    {"data peek", "FILE", 1, 1, "show tokens decoded, with document ends", data_peek_options,
     cmd_data_peek},
    {"train", "[PROFILE]", 0, 1, "train a profile, or continue a run with --resume RUN",
     train_options, cmd_train},
    {"probe", "PROFILE", 1, 1,
     "one micro-batch's loss, logits, weights and gradients in a file, to check lathe with",
     probe_options, cmd_probe},
    {"eval", "RUN", 1, 1, "loss, PPL and bits per byte of a run's checkpoint on a token file",
     eval_options, cmd_eval},
    {"sample", "RUN", 1, 1, "text from a run's checkpoint", sample_options, cmd_sample},
    {"runs", "", 0, 0, "list the runs, newest first", runs_options, cmd_runs},
    {"watch", "RUN", 1, 1, "follow a run: a line per record; changes nothing", watch_options,
     cmd_watch},
    {"pause", "RUN", 1, 1, "hold a running run; it keeps its memory", control_options, cmd_control},
    {"resume", "RUN", 1, 1,
     "continue a paused run, or start a process for one that was stopped, failed or is lost",
     control_options, cmd_control},
    {"checkpoint", "RUN", 1, 1, "write a checkpoint now", control_options, cmd_control},
    {"set", "RUN KEY=VALUE [at=STEP|now]", 2, 3,
     "change lr, now or at a step, or the end (max_steps, max_tokens) of a running run",
     set_options, cmd_set},
    {"stop", "RUN", 1, 1, "write a checkpoint and end the process", control_options, cmd_control},
    {"delete", "RUN", 1, 1, "move a run that has no process to the trash", delete_options,
     cmd_delete},
    {"help", "[COMMAND | keys]", 0, 2, "list the commands, explain one, or list all profile keys",
     no_options, cmd_help},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

// ---- usage texts --------------------------------------------------------------------------------

static void print_options(FILE *out, const struct cli_option *o)
{
    char left[64];

    for (; o->name; o++) {
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
        fprintf(out, "  %-22s %s\n", left, o->help);
    }
}

static void print_command(FILE *out, const struct cli_command *c)
{
    fprintf(out, "usage: lathe %s%s%s%s\n\n%s\n\n", c->name, c->operands[0] ? " " : "", c->operands,
            c->options[0].name ? " [OPTION]…" : "", c->help);
    print_options(out, c->options);
    print_options(out, common_options);
}

static void print_overview(FILE *out)
{
    fprintf(out,
            "lathe " LATHE_VERSION ": shape, count, train and watch transformers layer by layer\n\n"
            "usage: lathe [PROFILE]            open the workbench\n"
            "       lathe --run RUN            open it on a run\n"
            "       lathe COMMAND …            one of:\n\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-14s %s\n", commands[i].name, commands[i].help);
    fprintf(out,
            "\nlathe help COMMAND explains one. Exit codes: 1 bad input, 2 usage, 3 a question\n"
            "answered \"no\", 4 the run failed, 143 stopped with a checkpoint.\n");
}

// ---- finding the command ------------------------------------------------------------------------

// A command's name may have two words; *words tells how many of argv it took.
static const struct cli_command *find_command(int argc, char **argv, int *words)
{
    char two[128];

    if (argc > 1) {
        snprintf(two, sizeof two, "%s %s", argv[0], argv[1]);
        for (int i = 0; i < N_COMMANDS; i++)
            if (!strcmp(commands[i].name, two)) {
                *words = 2;
                return &commands[i];
            }
    }
    for (int i = 0; i < N_COMMANDS; i++)
        if (argc > 0 && !strcmp(commands[i].name, argv[0])) {
            *words = 1;
            return &commands[i];
        }
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *near = NULL;
    int best = (int)strlen(name) < 6 ? 2 : (int)strlen(name) / 3 + 1; // at most a third is wrong

    fprintf(stderr, "lathe: unknown command '%s'", name);
    for (int i = 0; i < N_COMMANDS; i++) {
        int d = spec_edit_distance(name, commands[i].name);
        size_t n = strlen(name);

        if (!strncmp(commands[i].name, name, n) && commands[i].name[n] == ' ')
            d = 0; // the first word of a two-word command
        if (d < best) {
            best = d;
            near = commands[i].name;
        }
    }
    if (near)
        fprintf(stderr, ", did you mean '%s'?", near);
    fprintf(stderr, "\nlathe help lists the commands\n");
    return CLI_USAGE;
}

// All commands of two words that start with `word`; false when there is none.
static bool print_family(const char *word)
{
    size_t n = strlen(word);
    bool found = false;

    for (int i = 0; i < N_COMMANDS; i++)
        if (!strncmp(commands[i].name, word, n) && commands[i].name[n] == ' ') {
            print_command(stdout, &commands[i]);
            putchar('\n');
            found = true;
        }
    return found;
}

static int cmd_help(const struct cli_command *cmd, int argc, char **argv)
{
    struct cli_args a;
    const struct cli_command *c;
    char *name[2];
    int words, rc = cli_parse(cmd, argc, argv, &a);

    if (rc)
        return rc;
    if (a.n_operands == 0) {
        print_overview(stdout);
        return CLI_OK;
    }
    if (!strcmp(a.operand[0], "keys")) {
        profile_print_keys(stdout);
        return CLI_OK;
    }
    for (int i = 0; i < a.n_operands; i++)
        name[i] = (char *)(uintptr_t)a.operand[i];
    c = find_command(a.n_operands, name, &words);
    if (!c)
        return print_family(a.operand[0]) ? CLI_OK : unknown_command(a.operand[0]);
    print_command(stdout, c);
    return CLI_OK;
}

// ---- arguments ----------------------------------------------------------------------------------

static int usage_error(const struct cli_command *cmd, const char *what, const char *subject)
{
    fprintf(stderr, "lathe %s: %s '%s'\nlathe help %s shows its options\n", cmd->name, what,
            subject, cmd->name);
    return CLI_USAGE;
}

static int option_row(const struct cli_option *o, const char *name, size_t len)
{
    for (int i = 0; o[i].name; i++)
        if (strlen(o[i].name) == len && !strncmp(o[i].name, name, len))
            return i;
    return -1;
}

// Stores one --name[=value]; *i moves on when the value is the next word.
static int take_option(struct cli_args *a, int argc, char **argv, int *i)
{
    const char *name = argv[*i] + 2, *eq = strchr(name, '='), *value = "";
    size_t len = eq ? (size_t)(eq - name) : strlen(name);
    int row = option_row(a->cmd->options, name, len);
    int common = row < 0 ? option_row(common_options, name, len) : -1;
    const struct cli_option *o;

    if (row < 0 && common < 0)
        return usage_error(a->cmd, "unknown option", argv[*i]);
    o = row >= 0 ? &a->cmd->options[row] : &common_options[common];
    if (!o->arg && eq)
        return usage_error(a->cmd, "this option takes no value:", argv[*i]);
    if (o->arg && eq)
        value = eq + 1;
    else if (o->arg && *i + 1 >= argc)
        return usage_error(a->cmd, "a value is missing after", argv[*i]);
    else if (o->arg)
        value = argv[++*i];
    if (common >= 0 && !strcmp(o->name, "runs"))
        setenv("LATHE_RUNS", value, 1);
    else if (row >= 0 && !strcmp(o->name, "set")) {
        if (a->n_set == (int)(sizeof a->set / sizeof a->set[0]))
            return usage_error(a->cmd, "too many --set; the limit was reached at", value);
        a->set[a->n_set++] = value;
    }
    if (row >= 0)
        a->value[row] = value;
    return 0;
}

int cli_parse(const struct cli_command *cmd, int argc, char **argv, struct cli_args *a)
{
    bool only_operands = false;

    memset(a, 0, sizeof *a);
    a->cmd = cmd;
    for (int i = 0; i < argc; i++) {
        int rc;

        if (!only_operands && !strcmp(argv[i], "--")) {
            only_operands = true;
        } else if (!only_operands && !strncmp(argv[i], "--", 2)) {
            if ((rc = take_option(a, argc, argv, &i)))
                return rc;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1]) {
            return usage_error(cmd, "unknown option", argv[i]);
        } else if (a->n_operands == (int)(sizeof a->operand / sizeof a->operand[0]) ||
                   (cmd->max_operands >= 0 && a->n_operands == cmd->max_operands)) {
            return usage_error(cmd, "too many arguments, starting at", argv[i]);
        } else {
            a->operand[a->n_operands++] = argv[i];
        }
    }
    if (a->n_operands < cmd->min_operands)
        return usage_error(cmd, "missing argument:", cmd->operands);
    return 0;
}

const char *cli_value(const struct cli_args *a, const char *option)
{
    int row = option_row(a->cmd->options, option, strlen(option));

    if (row < 0)
        BUG("command '%s' has no option '%s'", a->cmd->name, option);
    return a->value[row];
}

bool cli_has(const struct cli_args *a, const char *option)
{
    return cli_value(a, option) != NULL;
}

// ---- shared by the commands ---------------------------------------------------------------------

int cli_profile(const struct cli_args *a, const char *path, struct spec *spec)
{
    struct problems p = {0};
    int rc = profile_load(path, a->set, a->n_set, spec, &p);

    problems_print(&p, stderr);
    problems_release(&p);
    return rc < 0 ? CLI_INPUT : 0;
}

int cli_fail(const struct err *err, int code)
{
    char text[2048];

    // a place in a file comes first, as compilers and editors expect it
    fprintf(stderr, "%s%s\n", err->file[0] ? "" : "lathe: ", err_format(err, text, sizeof text));
    return code;
}

void cli_print_json(json_t *j)
{
    json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(j);
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
    return false;
}

// A word that is no command opens the workbench when it can be a profile.
static bool looks_like_profile(const char *word)
{
    size_t n = strlen(word);

    return file_exists(word) || strchr(word, '/') || (n > 5 && !strcmp(word + n - 5, ".yaml"));
}

// A file that is opened must not get the number of a standard stream that the caller closed.
static void keep_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY); // using it fails, as it should
}

// A script must not take a cut answer for the whole one.
static int check_output(int rc)
{
    bool failed = ferror(stdout);

    if ((fflush(stdout) == 0 && !failed) || rc < 0)
        return rc;
    fprintf(stderr, "lathe: the output could not be written: %s\n", strerror(errno));
    return rc == CLI_OK ? CLI_INPUT : rc;
}

static int dispatch(int argc, char **argv)
{
    const struct cli_command *c;
    int words;

    argc--;
    argv++;
    if (argc == 0)
        return -1;
    if (!strcmp(argv[0], "--version")) {
        puts("lathe " LATHE_VERSION);
        return CLI_OK;
    }
    if (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h")) {
        print_overview(stdout);
        return CLI_OK;
    }
    if (argv[0][0] == '-')
        return -1; // options of the workbench
    c = find_command(argc, argv, &words);
    if (!c)
        return looks_like_profile(argv[0]) ? -1 : unknown_command(argv[0]);
    if (asks_for_help(argc - words, argv + words)) {
        print_command(stdout, c);
        return CLI_OK;
    }
    return c->run(c, argc - words, argv + words);
}

int cli_main(int argc, char **argv)
{
    keep_standard_streams();
    return check_output(dispatch(argc, argv));
}
