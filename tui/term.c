#include "tui/term.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include <curses.h>
#include <term.h>

#include "engine/buf.h"
#include "tui/input.h"
#include "tui/keys.h"
#include "tui/tty.h"

enum { SEQUENCE_SIZE = 200 };

static const char sync_on[] = "\033[?2026h", sync_off[] = "\033[?2026l";

static struct {
    bool open, utf8, lost, modern; // modern: an emulator with an alternate screen
    bool resized, suspend, interrupted;
    enum color_level color;
    bool direct_rgb; // colour numbers are RGB values
    SCREEN *screen;
    FILE *frame; // a memory file; ncurses writes into it
    int frame_fd, rows, cols;
    struct canvas shown; // what ncurses was last told
    bool repaint;
    struct buf out; // bytes of the frame not yet taken by the terminal
    struct input input;
    double last_byte; // when input last came
    bool into_line;   // a line is being typed
    bool mouse;       // wanted
    struct term_stats stats;
} term;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- start --------------------------------------------------------------------------------------

static bool choose_utf8(int wanted)
{
    bool by_locale = !strcmp(nl_langinfo(CODESET), "UTF-8");

    if (wanted == 1 && !by_locale) // ncurses converts by the locale
        by_locale = setlocale(LC_CTYPE, "C.UTF-8") != NULL;
    return wanted != 0 && by_locale;
}

static const char *capability(const char *name)
{
    const char *s = tigetstr((char *)name);

    return s && s != (char *)-1 ? s : NULL;
}

// Appends a terminfo string without its padding ("$<5>").
static void add_capability(char *out, const char *name)
{
    const char *s = capability(name);
    size_t n = strlen(out);

    for (; s && *s && n + 1 < SEQUENCE_SIZE; s++) {
        if (s[0] == '$' && s[1] == '<' && strchr(s, '>'))
            s = strchr(s, '>');
        else
            out[n++] = *s;
    }
    out[n] = 0;
}

static const char mouse_on[] = "\033[?1002h\033[?1006h"; // buttons and drags, as SGR reports
static const char mouse_off[] = "\033[?1002l\033[?1006l";

static bool can_mouse(void)
{
    return term.modern && capability("kmous");
}

static void set_sequences(void)
{
    char enter[SEQUENCE_SIZE] = "", leave[SEQUENCE_SIZE] = "";

    add_capability(enter, "smcup");
    if (term.modern) {
        strcat(enter, "\033[?2004h");
        strcat(leave, "\033[?2026l\033[?2004l");
    }
    if (can_mouse())
        strcat(leave, mouse_off);
    if (can_mouse() && term.mouse)
        strcat(enter, mouse_on);
    if (capability("csr"))
        strcat(leave, "\033[r");
    add_capability(leave, "sgr0");
    add_capability(leave, "cnorm");
    add_capability(leave, "rmkx");
    if (!term.modern) // nothing to go back to: leave the last picture and start below it
        strcat(leave, "\033[999;1H\r\n");
    add_capability(leave, "rmcup");
    tty_set_sequences(enter, leave);
}

static int check_type(struct err *err)
{
    const char *type = getenv("TERM");
    int status = 0;
    bool can_place;

    if (!type || !*type)
        return err_set(err, "TERM is not set; try: TERM=xterm-256color lathe, or without a "
                            "screen: lathe watch RUN --once");
    if (setupterm(type, term.frame_fd, &status) == ERR && status != 1)
        return err_set(err,
                       "terminal type '%s' (from TERM) is unknown on this machine; try: "
                       "TERM=xterm-256color lathe, or without a screen: lathe watch RUN --once",
                       type);
    can_place = capability("cup") != NULL;
    del_curterm(cur_term);
    if (!can_place)
        return err_set(
            err,
            "terminal type '%s' (from TERM) cannot place text; use lathe watch RUN --once, "
            "or: TERM=xterm-256color lathe",
            type);
    return 0;
}

static int open_frame(struct err *err)
{
    term.frame_fd = memfd_create("lathe-frame", MFD_CLOEXEC);
    term.frame = term.frame_fd >= 0 ? fdopen(term.frame_fd, "w+") : NULL;
    if (!term.frame)
        return err_sys(err, "cannot make a memory file for the screen");
    return 0;
}

static void drop_frame(void)
{
    if (ftruncate(term.frame_fd, 0) < 0 || lseek(term.frame_fd, 0, SEEK_SET) < 0)
        BUG("memory file: %s", strerror(errno));
}

// 256-palette number to RGB, for terminals whose colour numbers are RGB.
static int palette_rgb(int n)
{
    static const int level[] = {0, 95, 135, 175, 215, 255};
    int grey = 8 + 10 * (n - 232);

    if (n >= 232)
        return grey << 16 | grey << 8 | grey;
    n -= 16;
    return level[n / 36] << 16 | level[n / 6 % 6] << 8 | level[n % 6];
}

static void set_colors(enum color_level max)
{
    term.color = COLOR_NEVER;
    if (max == COLOR_NEVER || !has_colors() || start_color() == ERR)
        return;
    use_default_colors(); // never paint a background: the person's own stays
    term.color = COLORS >= 256 && max == COLOR_256 ? COLOR_256
                 : COLORS >= 8                     ? COLOR_16
                                                   : COLOR_NEVER;
    term.direct_rgb = tigetflag("RGB") > 0;
    for (int i = 0; i < ROLE_COUNT; i++) {
        const struct style *s = theme_style((enum role)i);
        int fg = term.color == COLOR_256 ? s->fg256 : s->fg16;

        if (fg >= 16 && term.direct_rgb)
            fg = palette_rgb(fg);
        init_extended_pair(i + 1, fg, -1);
    }
}

static void set_curses_modes(void)
{
    set_escdelay(INPUT_ESC_MS);
    typeahead(-1); // never abandon a frame because keys are waiting
    idlok(stdscr, TRUE);
    leaveok(stdscr, FALSE);
    scrollok(stdscr, FALSE);
    nonl();
}

static void resize(void)
{
    tty_size(&term.rows, &term.cols);
    resizeterm(term.rows, term.cols);
    canvas_release(&term.shown);
    canvas_init(&term.shown, term.rows, term.cols, term.utf8);
    term.repaint = true;
}

int term_open(const struct term_options *o, struct err *err)
{
    if (tty_open(err) < 0 || open_frame(err) < 0 || check_type(err) < 0) {
        term_close();
        return -1;
    }
    unsetenv("LINES"); // they would override the real size
    unsetenv("COLUMNS");
    setenv("NCURSES_NO_PADDING", "1", 1);
    term.utf8 = choose_utf8(o->utf8);
    term.screen = newterm(NULL, term.frame, stdin);
    if (!term.screen) {
        err_set(err, "ncurses cannot start on terminal type '%s'", getenv("TERM"));
        term_close();
        return -1;
    }
    drop_frame(); // its start sequence: ours is written at every start, after ctrl-Z too
    term.open = true;
    term.modern = capability("smcup") != NULL;
    term.mouse = true;
    set_sequences();
    set_curses_modes();
    set_colors(o->max_color);
    tty_signals(true);
    bug_set_hook(tty_restore);
    tty_take();
    resize();
    return 0;
}

// ---- frames -------------------------------------------------------------------------------------

// Moves what ncurses wrote into out, between the marks that let a terminal show it at once.
static bool take_frame(void)
{
    off_t size;
    char *bytes;

    fflush(term.frame);
    size = lseek(term.frame_fd, 0, SEEK_END);
    if (size <= 0)
        return false;
    bytes = xmalloc((size_t)size);
    if (pread(term.frame_fd, bytes, (size_t)size, 0) != size)
        BUG("memory file: %s", strerror(errno));
    if (term.modern)
        buf_str(&term.out, sync_on);
    buf_add(&term.out, bytes, (size_t)size);
    if (term.modern)
        buf_str(&term.out, sync_off);
    free(bytes);
    drop_frame();
    return true;
}

static attr_t attributes(const struct style *s)
{
    unsigned char bits = term.color == COLOR_NEVER ? s->mono_attrs : s->attrs;

    return (bits & STYLE_BOLD ? A_BOLD : 0) | (bits & STYLE_REVERSE ? A_REVERSE : 0) |
           (bits & STYLE_DIM ? A_DIM : 0) | (bits & STYLE_UNDERLINE ? A_UNDERLINE : 0);
}

static void put_cell(int row, int col, const struct cell *cell)
{
    wchar_t text[2] = {(wchar_t)cell->ch, 0};
    int pair = term.color == COLOR_NEVER ? 0 : cell->role + 1;
    cchar_t c;

    // the last argument carries a pair beyond 255; COLOR_PAIR() could not
    if (setcchar(&c, text, attributes(theme_style(cell->role)), (short)pair, &pair) == OK)
        mvadd_wch(row, col, &c);
}

static void copy_cells(const struct canvas *c)
{
    int rows = c->rows < term.rows ? c->rows : term.rows;
    int cols = c->cols < term.cols ? c->cols : term.cols;

    for (int row = 0; row < rows; row++)
        for (int col = 0; col < cols; col++) {
            const struct cell *new = &c->cell[row * c->cols + col];
            struct cell *old = &term.shown.cell[row * term.cols + col];

            if (!term.repaint && new->ch == old->ch &&new->role == old->role)
                continue;
            *old = *new;
            if (new->ch)
                put_cell(row, col, new);
        }
}

static void place_cursor(const struct canvas *c)
{
    bool visible = c->cursor_row >= 0 && c->cursor_row < term.rows && c->cursor_col >= 0 &&
                   c->cursor_col < term.cols;

    curs_set(visible);
    move(visible ? c->cursor_row : term.rows - 1, visible ? c->cursor_col : term.cols - 1);
}

void term_draw(const struct canvas *c)
{
    if (!term.open || term.lost || term_pending())
        return;
    if (term.repaint)
        clearok(curscr, TRUE);
    copy_cells(c);
    place_cursor(c);
    wnoutrefresh(stdscr);
    doupdate();
    term.repaint = false;
    if (take_frame()) {
        term.stats.frames++;
        term_flush();
    }
}

void term_repaint(void)
{
    term.repaint = true;
}

bool term_pending(void)
{
    return term.out.len > 0;
}

void term_flush(void)
{
    long n;

    if (term.out.len == 0)
        return;
    n = tty_write(term.out.data, term.out.len);
    term.stats.writes += n > 0;
    if (n < 0) {
        term.lost = true;
        buf_reset(&term.out);
        return;
    }
    term.stats.bytes += n;
    buf_consume(&term.out, (size_t)n);
}

void term_close(void)
{
    if (term.open) {
        tty_restore(); // first: nothing after this can fail on the person's screen
        endwin();
        delscreen(term.screen);
        tty_signals(false);
        bug_set_hook(NULL);
    }
    if (term.frame)
        fclose(term.frame);
    canvas_release(&term.shown);
    buf_release(&term.out);
    input_release(&term.input);
    tty_close();
    term.open = false;
    term.frame = NULL;
    term.frame_fd = -1;
    term.lost = false;
}

// ---- input and signals --------------------------------------------------------------------------

int term_fd(void)
{
    return tty_fd();
}

int term_signal_fd(void)
{
    return tty_signal_fd();
}

static int input_age_ms(void)
{
    double ms = (now_s() - term.last_byte) * 1000;

    return ms > INPUT_STALE_MS ? INPUT_STALE_MS : (int)ms;
}

static void read_input(void)
{
    char bytes[4096];
    struct pollfd p = {tty_fd(), POLLIN, 0};
    ssize_t n;

    if (poll(&p, 1, 0) <= 0) // a terminal that could not be opened anew would block
        return;
    n = read(tty_fd(), bytes, sizeof bytes);
    if (n > 0) {
        input_feed_read(&term.input, bytes, (size_t)n, input_age_ms(), term.into_line);
        term.last_byte = now_s();
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        term.lost = true;
    }
}

void term_expect_line(bool expected)
{
    term.into_line = expected;
}

int term_read_key(void)
{
    int key = input_key(&term.input, input_age_ms());

    if (key)
        return key;
    read_input();
    return input_key(&term.input, input_age_ms());
}

int term_key_wait_ms(void)
{
    int wait = input_wait_ms(&term.input);
    int left = wait - input_age_ms();

    return wait < 0 ? -1 : left > 0 ? left : 0;
}

const char *term_paste(void)
{
    return term.input.paste.data ? term.input.paste.data : "";
}

const struct mouse *term_mouse_event(void)
{
    return &term.input.mouse;
}

void term_mouse(bool on)
{
    if (!can_mouse())
        return;
    term.mouse = on;
    set_sequences(); // for the next ctrl-Z
    buf_str(&term.out, on ? mouse_on : mouse_off);
    term_flush();
}

bool term_has_mouse(void)
{
    return term.open && can_mouse() && term.mouse;
}

bool term_lost(void)
{
    return term.lost;
}

static void take_events(void)
{
    int events = tty_events();

    if (events & TTY_CONTINUED) { // stopped from outside: the shell changed the modes
        tty_take();
        term.repaint = true;
    }
    if (events & (TTY_RESIZED | TTY_CONTINUED)) {
        resize();
        term.resized = true;
    }
    term.suspend |= (events & TTY_SUSPEND) != 0;
    term.interrupted |= (events & TTY_INTERRUPT) != 0;
}

static bool once(bool *flag)
{
    bool was;

    take_events();
    was = *flag;
    *flag = false;
    return was;
}

bool term_resized(void)
{
    return once(&term.resized);
}

bool term_wants_suspend(void)
{
    return once(&term.suspend);
}

int term_end_signal(void)
{
    return tty_end_signal();
}

bool term_interrupted(void)
{
    return once(&term.interrupted);
}

void term_suspend(void)
{
    tty_restore();
    tty_stop();
    tty_take();
    resize();
    term.resized = true;
}

bool term_is_utf8(void)
{
    return term.utf8;
}

enum color_level term_color(void)
{
    return term.color;
}

void term_size(int *rows, int *cols)
{
    *rows = term.rows;
    *cols = term.cols;
}

struct term_stats term_stats(void)
{
    return term.stats;
}
