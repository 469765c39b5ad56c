#include "tests/t.h"

#include <limits.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "engine/file.h"

static char dir[128];

static void remove_dir(void)
{
    file_remove_tree(dir, NULL);
}

const char *t_dir(void)
{
    const char *base = getenv("TMPDIR");

    if (!dir[0]) {
        snprintf(dir, sizeof dir, "%s/lathe-test-XXXXXX", base ? base : "/tmp");
        assert_non_null(mkdtemp(dir));
        atexit(remove_dir);
    }
    return dir;
}

const char *t_path(const char *name)
{
    static char ring[8][512];
    static int at;

    at = (at + 1) % 8;
    snprintf(ring[at], sizeof ring[at], "%s/%s", t_dir(), name);
    return ring[at];
}

void t_write(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

void t_near(double a, double b, double tol, const char *what, const char *file, int line)
{
    double scale = fabs(b) > 1 ? fabs(b) : 1;

    if (!(fabs(a - b) <= tol * scale))
        fail_msg("%s:%d: %s is %.17g, expected %.17g (difference %.3g, allowed %.3g)", file, line,
                 what, a, b, a - b, tol * scale);
}

double t_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void t_sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}
