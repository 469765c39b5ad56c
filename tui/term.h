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
    double fps;                 // pictures a second of what moves by itself at most, 0 = 2
};

// Terminal modes on. -1 when there is no terminal or it cannot place text (the reason says what to
// do instead). From here on any fatal signal, BUG() included, restores the terminal first.
int term_open(const struct term_options *o, struct err *err);
void term_close(void); // restored; safe to call twice
bool term_is_utf8(void);
enum color_level term_color(void);
void term_size(int *rows, int *cols);

// Sends what changed since the last frame. A short write keeps the rest: term_pending() is true
// until term_flush() has drained it; draw nothing new before that.
void term_draw(const struct canvas *c);
void term_repaint(void); // next frame redraws everything
bool term_pending(void);
void term_flush(void);

int term_fd(void);                    // to poll for input
int term_read_key(void);              // next key or 0 when none is waiting; K_* of keys.h
int term_key_wait_ms(void);           // until a lone Esc is sure to be one, -1 = nothing half-read
void term_expect_line(bool expected); // a line is being typed: unmarked pastes are input
const char *term_paste(void);         // text of the last K_PASTE
const struct mouse *term_mouse_event(void); // the last K_MOUSE
// Whether the terminal reports the mouse; while it does, it selects text only with Shift. Off, it is
// as if there was none. Nothing happens where terminfo knows no mouse.
void term_mouse(bool on);
bool term_has_mouse(void); // reported now
bool term_lost(void);                 // the other side hung up
void term_suspend(void);              // ctrl-Z: restore, stop, set up again on continue

// Signals that the poll loop answers: each is true once after it came.
int term_signal_fd(void); // to poll with term_fd()
bool term_resized(void);  // SIGWINCH; the new size is in force
bool term_wants_suspend(void);
bool term_interrupted(void); // ctrl-C
int term_end_signal(void);   // SIGTERM or SIGHUP came: leave without asking, then raise it. 0 = no

struct term_stats {
    long frames; // that changed something
    long writes, bytes;
};
struct term_stats term_stats(void);

#endif
