// A program on a pseudo terminal with libvterm as the terminal: send bytes, look at the screen,
// wait until something is there. Waiting fails the test after PTY_SECONDS; nothing sleeps for a
// fixed time.
#ifndef TESTS_PTY_H
#define TESTS_PTY_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/buf.h"

enum { PTY_SECONDS = 20 };

struct pty;

// argv ends with NULL. env: "NAME=value" or "NAME" (unset), ends with NULL; TERM defaults to
// xterm-256color, LC_ALL to C.UTF-8, NO_COLOR to unset.
struct pty *pty_start(const char *const *argv, const char *const *env, int rows, int cols);
// The same below a shell of sorts that does job control. It prints "[job PID]", then when the
// program stops "[stopped, modes as found|changed]" (a line of input continues it in the
// foreground), and in the end "[ended CODE, modes as found|changed]", 128 + signal as the code.
struct pty *pty_start_job(const char *const *argv, const char *const *env, int rows, int cols);
int pty_job(struct pty *p); // PID of the program
// Runs a function in the child instead of a program; its result is the exit code.
struct pty *pty_start_fn(int (*fn)(void *arg), void *arg, const char *const *env, int rows,
                         int cols);
void pty_free(struct pty *p); // kills what still runs

void pty_send(struct pty *p, const char *bytes);
void pty_resize(struct pty *p, int rows, int cols);
int pty_pid(const struct pty *p);
void pty_hang_up(struct pty *p); // closes the terminal's side

bool pty_pump(struct pty *p, int ms); // reads what is there within ms; false at the end
bool pty_has(struct pty *p, const char *text);
void pty_wait(struct pty *p, const char *text); // until the screen shows it
void pty_wait_gone(struct pty *p, const char *text);
bool pty_wait_either(struct pty *p, const char *a, const char *b); // true: it was a
int pty_wait_exit(struct pty *p);                                  // exit code, or 128 + signal

const char *pty_text(struct pty *p); // rows of the screen; valid until the next call
const char *pty_row(struct pty *p, int row);
bool pty_reverse(struct pty *p, int row, int col); // attributes of a cell
bool pty_colored(struct pty *p);                   // any cell has a colour of its own
bool pty_alt_screen(const struct pty *p);
bool pty_cursor_visible(const struct pty *p);
struct buf *pty_raw(struct pty *p); // every byte the program sent

#endif
