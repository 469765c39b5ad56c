#include "kernels/bug.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void (*bug_hook)(void);

void bug_set_hook(void (*hook)(void))
{
    bug_hook = hook;
}

void bug_abort(const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    if (bug_hook)
        bug_hook();
    fprintf(stderr, "lathe: bug at %s:%d: ", file, line);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    abort();
}
