// Watching at scale, with the real program on a pseudo terminal: the first picture with 1,000 runs in
// the project, their list, and the memory that takes.
// usage: bench_watch [RUNS], with the program in $LATHE (default ./lathe)
#include <stdlib.h>
#include <unistd.h>

#include "engine/file.h"
#include "engine/run.h"
#include "tests/fake_run.h"
#include "tests/pty.h"
#include "tests/t.h"

enum { ROUNDS = 9 };
static const char frame_end[] = "\033[?2026l";

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static struct pty *start(const char *run)
{
    const char *program = getenv("LATHE") ? getenv("LATHE") : "./lathe";
    const char *const plain[] = {program, NULL};
    const char *const on_run[] = {program, "--run", run, NULL};

    return pty_start(run ? on_run : plain, NULL, 30, 100);
}

// Seconds until a whole frame has come.
static double until_frame(struct pty *p, double start)
{
    while (pty_pump(p, 1000)) {
        struct buf *raw = pty_raw(p);

        if (raw->len && memmem(raw->data, raw->len, frame_end, sizeof frame_end - 1))
            break;
    }
    return t_now() - start;
}

static double until_text(struct pty *p, const char *text, double start)
{
    while (!pty_has(p, text))
        pty_pump(p, 1);
    return t_now() - start;
}

static void quit(struct pty *p)
{
    pty_send(p, "q");
    pty_wait_exit(p);
    pty_free(p);
}

static long resident_kib(int pid)
{
    char path[64];
    struct buf text = {0};
    const char *at;
    long kib;

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    file_read(path, 1 << 16, &text, NULL);
    at = text.data ? strstr(text.data, "VmRSS:") : NULL;
    kib = at ? strtol(at + 6, NULL, 10) : 0;
    buf_release(&text);
    return kib;
}

static void bench_many(int runs)
{
    double first[ROUNDS], list[ROUNDS];
    char dir[512], id[32], last[32];
    long kib = 0;

    for (int i = 0; i < runs; i++) {
        snprintf(id, sizeof id, "many-%d", i + 1);
        fake_run_make(id, RUN_DONE, 20, dir);
    }
    snprintf(last, sizeof last, "many-");
    for (int i = 0; i < ROUNDS; i++) {
        double begin = t_now();
        struct pty *p = start(NULL);

        first[i] = until_frame(p, begin);
        pty_wait(p, "same as: ");
        begin = t_now();
        pty_send(p, "3");
        list[i] = until_text(p, last, begin);
        kib = resident_kib(pty_pid(p));
        quit(p);
    }
    printf("%d runs: first picture %.1f ms (goal 30), listed %.1f ms after the key (goal 50), "
           "%.0f MiB resident (goal 64)\n",
           runs, 1e3 * median(first, ROUNDS), 1e3 * median(list, ROUNDS), (double)kib / 1024);
}

int main(int argc, char **argv)
{
    setenv("LATHE_RUNS", t_path("runs"), 1);
    runs_set_dir(NULL);
    bench_many(argc > 1 ? atoi(argv[1]) : 1000);
    return 0;
}
