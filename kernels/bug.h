// BUG(): the program met a state that its own code must never produce.
// It prints file and line, runs the hook (the workbench restores the terminal there) and aborts.
// Bad input, a full disk or a missing file is never a BUG: those return errors.
#ifndef KERNELS_BUG_H
#define KERNELS_BUG_H

#define BUG(...) bug_abort(__FILE__, __LINE__, __VA_ARGS__)
#define BUG_IF(cond)                                                                               \
    do {                                                                                           \
        if (cond)                                                                                  \
            BUG("%s", #cond);                                                                      \
    } while (0)

_Noreturn void bug_abort(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Called once before the message is printed; must be async-signal-safe. NULL removes it.
void bug_set_hook(void (*hook)(void));

#endif
