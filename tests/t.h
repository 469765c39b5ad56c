// Shared by the cmocka test programs: includes, a fresh directory per program, and comparisons that
// print both values. A test file is static functions and one table in main().
#ifndef TESTS_T_H
#define TESTS_T_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// A new empty directory below $TMPDIR, removed when the program ends. The same one on each call.
const char *t_dir(void);
// "<t_dir>/name" in a static ring of eight buffers.
const char *t_path(const char *name);
void t_write(const char *path, const char *text);

// |a - b| <= tol * max(1, |b|); fails with both values and the place.
void t_near(double a, double b, double tol, const char *what, const char *file, int line);
#define assert_near(a, b, tol) t_near((double)(a), (double)(b), (tol), #a, __FILE__, __LINE__)

// Polls cond every 10 ms for up to `seconds`; a test waits for what it needs, never a fixed time.
#define t_wait(cond, seconds)                                                                      \
    do {                                                                                           \
        double t_end_ = t_now() + (seconds);                                                       \
        while (!(cond)) {                                                                          \
            if (t_now() > t_end_)                                                                  \
                fail_msg("%s:%d: timed out waiting for %s", __FILE__, __LINE__, #cond);            \
            t_sleep_ms(10);                                                                        \
        }                                                                                          \
    } while (0)
double t_now(void); // monotonic seconds
void t_sleep_ms(int ms);

// clang brings its own OpenMP runtime, which lives beside the GNU one that oneDNN uses; what is said
// of threads holds for gcc's build only.
static inline void t_needs_gnu_openmp(void)
{
#ifdef __clang__
    skip();
#endif
}

#endif
