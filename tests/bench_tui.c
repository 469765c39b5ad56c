// From a key to the finished frame of the Design screen: recount, drawing into the grid, the diff
// and the bytes, at 36 layers. Counts and times; nothing is shown.
#include <locale.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "engine/err.h"
#include "tui/app.h"
#include "tui/design.h"
#include "tui/term.h"

enum { KEYS = 400, LIMIT_MS = 16 };

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + 1e-6 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

// One key, and the frame it leads to. Returns milliseconds.
static double press(struct app *app, struct canvas *c, int key)
{
    double start = now_ms();

    app_key(app, key, "");
    app_draw(app, c);
    term_draw(c);
    while (term_pending())
        term_flush();
    return now_ms() - start;
}

static void bench_size(FILE *out, struct app *app, int rows, int cols)
{
    static const int pattern[] = {'k', 'l', 'k', 'l', 'j', 'h', 'K', 'h'};
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    struct term_options options = {.max_color = COLOR_256, .utf8 = 1};
    struct term_stats before, after;
    struct err err = ERR_INIT;
    struct canvas c;
    double ms[KEYS];
    long counts;

    ioctl(STDOUT_FILENO, TIOCSWINSZ, &size);
    if (term_open(&options, &err) < 0) {
        fprintf(out, "bench_tui: %s\n", err.text);
        exit(1);
    }
    canvas_init(&c, rows, cols, true);
    press(app, &c, 'l');
    before = term_stats();
    counts = app->design->counts;
    for (int i = 0; i < KEYS; i++)
        ms[i] = press(app, &c, pattern[i % 8]);
    after = term_stats();
    counts = app->design->counts - counts;
    term_close();
    canvas_release(&c);
    qsort(ms, KEYS, sizeof *ms, by_value);
    fprintf(out,
            "%3dx%-3d key to frame: median %.3f ms, p99 %.3f ms, max %.3f ms (limit %d); "
            "%.2f recounts, %.2f writes, %ld bytes per frame\n",
            cols, rows, ms[KEYS / 2], ms[KEYS * 99 / 100], ms[KEYS - 1], LIMIT_MS,
            (double)counts / KEYS, (double)(after.writes - before.writes) / KEYS,
            (after.bytes - before.bytes) / KEYS);
    if (ms[KEYS * 99 / 100] > LIMIT_MS) {
        fprintf(out, "bench_tui: slower than a frame\n");
        exit(1);
    }
}

// Reads what the terminal would, so that no write ever waits.
static void drain(int fd)
{
    char bytes[65536];

    while (read(fd, bytes, sizeof bytes) > 0)
        ;
    _exit(0);
}

static FILE *become_terminal(void)
{
    FILE *out = fdopen(dup(STDOUT_FILENO), "w");
    int master, slave;

    if (!out || openpty(&master, &slave, NULL, NULL, NULL) < 0)
        exit(1);
    if (fork() == 0) {
        close(slave);
        drain(master);
    }
    close(master);
    dup2(slave, STDIN_FILENO);
    dup2(slave, STDOUT_FILENO);
    close(slave);
    return out;
}

int main(void)
{
    struct app app;
    struct err err = ERR_INIT;
    char text[1600];
    FILE *out;

    setlocale(LC_CTYPE, "C.UTF-8");
    setenv("TERM", "xterm-256color", 1);
    out = become_terminal();
    app_init(&app);
    if (design_open(app.design, "profiles/openelm/3B.yaml", &err) < 0) {
        fprintf(out, "bench_tui: %s\n", err_format(&err, text, sizeof text));
        return 1;
    }
    fprintf(out, "Design, %d layers, %d keys at each size\n", app.design->spec.model.n_layers,
            KEYS);
    bench_size(out, &app, 24, 80);
    bench_size(out, &app, 30, 100);
    bench_size(out, &app, 60, 200);
    app_release(&app);
    fclose(out);
    return 0;
}
