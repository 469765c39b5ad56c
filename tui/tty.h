// The tty itself, without curses: modes, signals, restoring, writes that never block. One per
// process. UI thread only, except that tty_restore() is async-signal-safe.
#ifndef TUI_TTY_H
#define TUI_TTY_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/err.h"

// Finds the terminal behind stdin and stdout. Fails when either is none.
int tty_open(struct err *err);
void tty_close(void);
int tty_fd(void);
void tty_size(int *rows, int *cols);

// What is written when the workbench takes the screen and when it gives it back, for whatever
// reason. Copied.
void tty_set_sequences(const char *enter, const char *leave);
void tty_take(void);    // modes, enter sequence
void tty_restore(void); // leave sequence, modes as found; nothing when already restored

void tty_signals(bool on); // handlers in place, or as they were
int tty_signal_fd(void);   // readable after one of the signals below
enum tty_event {
    TTY_RESIZED = 1,
    TTY_SUSPEND = 2,
    TTY_CONTINUED = 4,
    TTY_INTERRUPT = 8,
    TTY_END = 16 // SIGTERM or SIGHUP; a second one ends the process at once
};
int tty_events(void); // what came since the last call, or-ed
int tty_end_signal(void); // the signal behind TTY_END, 0 = none came
void tty_stop(void);  // stops the process as ctrl-Z does by default; returns when continued

// Bytes written, 0 when the terminal takes nothing now, -1 when it is gone.
long tty_write(const void *data, size_t n);

#endif
