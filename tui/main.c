// Arguments decide: a command runs and ends, otherwise the workbench opens.
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/cli.h"
#include "engine/host.h"
#include "engine/run.h"
#include "tui/app.h"

enum { MAX_FPS = 30 };
#define MIN_FPS 0.1

struct arguments {
    const char *profiles[TABS_MAX];
    int n_profiles;
    const char *run_id, *runs;
    const char *color, *fps;
    bool plain;
    struct term_options term;
};

static int usage(const char *problem, const char *subject)
{
    fprintf(stderr,
            "lathe: %s '%s'\n"
            "usage: lathe [PROFILE…] [--run RUN] [--runs DIR] [--color auto|256|16|never]\n"
            "             [--ascii|--utf8] [--fps N] [--plain]\n"
            "lathe help lists the commands\n",
            problem, subject);
    return CLI_USAGE;
}

// "--name value" or "--name=value"; moves *i onto the value.
static bool option(int argc, char **argv, int *i, const char *name, const char **value)
{
    size_t n = strlen(name);

    if (strncmp(argv[*i], name, n) != 0)
        return false;
    if (argv[*i][n] == '=') {
        *value = argv[*i] + n + 1;
        return true;
    }
    if (argv[*i][n] || *i + 1 >= argc)
        return false;
    *value = argv[++*i];
    return true;
}

static bool flag(const char *arg, struct term_options *o)
{
    if (!strcmp(arg, "--ascii"))
        o->utf8 = 0;
    else if (!strcmp(arg, "--utf8"))
        o->utf8 = 1;
    else
        return false;
    return true;
}

static bool color_level(const char *word, enum color_level *level)
{
    const char *no_color = getenv("NO_COLOR");

    if (!word || !strcmp(word, "auto"))
        *level = no_color && *no_color ? COLOR_NEVER : COLOR_256;
    else if (!strcmp(word, "256"))
        *level = COLOR_256;
    else if (!strcmp(word, "16"))
        *level = COLOR_16;
    else if (!strcmp(word, "never"))
        *level = COLOR_NEVER;
    else
        return false;
    return true;
}

static int parse(int argc, char **argv, struct arguments *a)
{
    for (int i = 1; i < argc; i++) {
        if (option(argc, argv, &i, "--run", &a->run_id) ||
            option(argc, argv, &i, "--runs", &a->runs) ||
            option(argc, argv, &i, "--color", &a->color) ||
            option(argc, argv, &i, "--fps", &a->fps) || flag(argv[i], &a->term))
            continue;
        if (!strcmp(argv[i], "--plain")) {
            a->plain = true;
            continue;
        }
        if (argv[i][0] == '-')
            return usage("unknown option, or one without its value", argv[i]);
        if (a->n_profiles == TABS_MAX)
            return usage("eight profiles at a time, not also", argv[i]);
        a->profiles[a->n_profiles++] = argv[i];
    }
    if (!color_level(a->color, &a->term.max_color))
        return usage("expected --color auto, 256, 16 or never, not", a->color);
    if (a->fps && (!unit_parse_float(a->fps, &a->term.fps) || a->term.fps < MIN_FPS ||
                   a->term.fps > MAX_FPS))
        return usage("expected --fps 0.1 to 30, not", a->fps);
    return 0;
}

// Lines instead of pictures, for screen readers and logs: what the screen would show as a command.
static int plain(const struct arguments *a)
{
    const char *args[TABS_MAX + 3] = {"lathe"};
    int n = 1;

    if (a->run_id) {
        args[n++] = "watch";
        args[n++] = a->run_id;
    } else if (a->n_profiles == 0) {
        args[n++] = "runs";
    } else {
        args[n++] = "count";
        for (int i = 0; i < a->n_profiles; i++)
            args[n++] = a->profiles[i];
    }
    return cli_main(n, (char **)args);
}

int main(int argc, char **argv)
{
    struct arguments a = {.term = {.max_color = COLOR_256, .utf8 = -1}};
    int rc;

    setlocale(LC_CTYPE, ""); // alone: LC_NUMERIC would put decimal commas into YAML and JSON
    host_set_program("/proc/self/exe");
    rc = cli_main(argc, argv);
    if (rc >= 0)
        return rc;
    rc = parse(argc, argv, &a);
    if (rc)
        return rc;
    if (a.runs)
        runs_set_dir(a.runs);
    if (a.plain)
        return plain(&a);
    return app_run(a.profiles, a.n_profiles, a.run_id, &a.term);
}
