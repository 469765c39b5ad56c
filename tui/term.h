// The only file that talks to curses and the terminal: start, restore, keys in, one write per frame
// out. ncurses writes into a memory file; the frame goes out in one write, wrapped in
// synchronised-update marks. UI thread only.
#ifndef TUI_TERM_H
#define TUI_TERM_H

#include "engine/err.h"
#include "tui/canvas.h"

struct term_options {
    enum color_level max_color; // COLOR_256 unless --color or NO_COLOR says less
    int utf8;                   // 1 yes, 0 no, -1 by locale
};

int term_open(const struct term_options *o, struct err *err); // terminal modes on
void term_close(void);                                        // restored; safe to call twice
bool term_is_utf8(void);
void term_size(int *rows, int *cols);

// Sends what changed since the last frame. A short write keeps the rest: term_pending() is true
// until term_flush() has drained it; draw nothing new before that.
void term_draw(const struct canvas *c);
void term_repaint(void); // next frame redraws everything
bool term_pending(void);
void term_flush(void);

int term_fd(void);       // to poll for input
int term_read_key(void); // next key or 0 when none is waiting; K_* of keys.h
bool term_resized(void); // true once after SIGWINCH
void term_suspend(void); // ctrl-Z: restore, stop, set up again on continue

struct term_stats {
    long frames, writes, bytes;
};
struct term_stats term_stats(void);

#endif
