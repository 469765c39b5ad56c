// The real program on a pseudo terminal: what it sends, and how it leaves the terminal behind.
#include "tests/t.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "tests/pty.h"
#include "tui/term.h"

static struct pty *p;

static const char *program(void)
{
    const char *path = getenv("LATHE");

    return path ? path : "build/release/lathe";
}

static void start(const char *const *env, int rows, int cols)
{
    const char *argv[] = {program(), "--runs", t_path("runs"), NULL};

    pty_free(p);
    p = pty_start(argv, env, rows, cols);
}

static void start_job_at(const char *const *env, int rows, int cols)
{
    const char *argv[] = {program(), "--runs", t_path("runs"), NULL};

    pty_free(p);
    p = pty_start_job(argv, env, rows, cols);
}

static void start_job(const char *const *env)
{
    start_job_at(env, 24, 80);
}

static bool sent(const char *bytes)
{
    const struct buf *raw = pty_raw(p);

    return raw->data && memmem(raw->data, raw->len, bytes, strlen(bytes));
}

static bool sent_byte_above(unsigned char limit)
{
    const struct buf *raw = pty_raw(p);

    for (size_t i = 0; i < raw->len; i++)
        if ((unsigned char)raw->data[i] > limit)
            return true;
    return false;
}

// SGR parameters 30-37, 38, 40-47, 48, 90-107: any colour.
static bool sent_color(void)
{
    const struct buf *raw = pty_raw(p);

    for (size_t i = 0; i + 2 < raw->len; i++) {
        const char *s = raw->data + i;
        size_t end = 2 + strspn(s + 2, "0123456789;:");

        if (s[0] != 033 || s[1] != '[' || s[end] != 'm')
            continue;
        for (s += 2; *s != 'm'; s += strspn(s, ";:")) {
            int n = atoi(s);

            if ((n >= 30 && n <= 38) || (n >= 40 && n <= 48) || (n >= 90 && n <= 107))
                return true;
            s += strspn(s, "0123456789");
        }
    }
    return false;
}

struct environment {
    const char *term, *locale, *no_color;
    bool color, utf8, alt, optional;
};

static const struct environment environments[] = {
    {"TERM=xterm-256color", "LC_ALL=C.UTF-8", "NO_COLOR", true, true, true, false},
    {"TERM=xterm-256color", "LC_ALL=C", "NO_COLOR", true, false, true, false},
    {"TERM=xterm-256color", "LC_ALL=C.UTF-8", "NO_COLOR=1", false, true, true, false},
    {"TERM=xterm", "LC_ALL=C.UTF-8", "NO_COLOR", true, true, true, false},
    {"TERM=xterm-direct", "LC_ALL=C.UTF-8", "NO_COLOR", true, true, true, true},
    {"TERM=screen", "LC_ALL=C.UTF-8", "NO_COLOR", true, true, true, false},
    {"TERM=screen-256color", "LC_ALL=C", "NO_COLOR=1", false, false, true, false},
    {"TERM=tmux-256color", "LC_ALL=C.UTF-8", "NO_COLOR", true, true, true, false},
    {"TERM=linux", "LC_ALL=C.UTF-8", "NO_COLOR", true, true, false, false},
    {"TERM=linux", "LC_ALL=C", "NO_COLOR", true, false, false, false},
    {"TERM=vt100", "LC_ALL=C.UTF-8", "NO_COLOR", false, true, false, false},
    {"TERM=vt100", "LC_ALL=C", "NO_COLOR", false, false, false, false},
};

static void try_environment(const struct environment *e)
{
    const char *env[] = {e->term, e->locale, e->no_color, NULL};

    start(env, 24, 80);
    if (e->optional && !pty_wait_either(p, "[1 Design]", "is unknown"))
        return; // Debian keeps its description in ncurses-term
    pty_wait(p, "[1 Design]");
    pty_wait(p, "Help");
    if (e->color != sent_color() || e->color != pty_colored(p))
        fail_msg("%s %s %s: colour %s", e->term, e->locale, e->no_color,
                 e->color ? "missing" : "sent");
    if (e->utf8 != sent_byte_above(0x7e))
        fail_msg("%s %s: UTF-8 %s", e->term, e->locale, e->utf8 ? "missing" : "sent");
    // never the VT100 line set: terminals that ignore it show letters
    assert_false(sent("\016") || sent("\033(0"));
    assert_int_equal(sent("\033[?1049h"), e->alt);
    assert_int_equal(sent("\033[?2026h"), e->alt);
    assert_int_equal(sent("\033[?1002h\033[?1006h"), e->alt); // no mouse without
    assert_false(sent("\033]4;"));                            // no palette
    pty_send(p, "q");
    assert_int_equal(pty_wait_exit(p), 0);
    assert_false(pty_alt_screen(p));
    assert_true(pty_cursor_visible(p));
}

static void each_terminal_gets_only_what_it_knows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof environments / sizeof *environments; i++)
        try_environment(&environments[i]);
}

static void end_by_signal(const struct environment *e, int rows, int cols, int sig)
{
    const char *env[] = {e->term, e->locale, e->no_color, NULL};
    char want[64];

    start_job_at(env, rows, cols);
    if (e->optional && !pty_wait_either(p, "[1 Design]", "is unknown"))
        return;
    pty_wait(p, "[1 Design]");
    assert_int_equal(pty_alt_screen(p), e->alt);
    assert_int_equal(kill(pty_job(p), sig), 0);
    snprintf(want, sizeof want, "[ended %d, modes as found]", 128 + sig);
    pty_wait(p, want);
    assert_false(pty_alt_screen(p));
    assert_true(pty_cursor_visible(p));
    assert_int_equal(sent("\033[?2004l"), e->alt);
    assert_int_equal(sent("\033[?1002l"), e->alt);
}

// 12 environments, 4 sizes, 8 signals.
static void every_signal_restores_every_terminal(void **state)
{
    static const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE,
                                  SIGILL,  SIGTERM, SIGHUP, SIGQUIT};
    static const int sizes[][2] = {{10, 40}, {24, 80}, {30, 100}, {60, 200}};

    (void)state;
    for (size_t e = 0; e < sizeof environments / sizeof *environments; e++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
                end_by_signal(&environments[e], sizes[s][0], sizes[s][1], signals[i]);
}

static void ctrl_z_gives_the_terminal_back_and_fg_returns(void **state)
{
    (void)state;
    start_job(NULL);
    pty_wait(p, "[1 Design]");
    for (int round = 0; round < 2; round++) {
        pty_send(p, "\032");
        pty_wait(p, "[stopped, modes as found]");
        assert_false(pty_alt_screen(p));
        pty_send(p, "\n");
        pty_wait(p, "[1 Design]");
        assert_true(pty_alt_screen(p));
        pty_send(p, "k");
        pty_wait(p, "[+]");
        pty_send(p, "u");
        pty_wait_gone(p, "[+]");
    }
    pty_send(p, "q");
    pty_wait(p, "[ended 0, modes as found]");
}

static void ctrl_c_asks_before_it_throws_changes_away(void **state)
{
    (void)state;
    start_job(NULL);
    pty_wait(p, "[1 Design]");
    pty_send(p, "k");
    pty_wait(p, "[+]");
    pty_send(p, "\003");
    pty_wait(p, "not saved");
    pty_send(p, "\003");
    pty_wait(p, "[ended 0, modes as found]");
}

static void resizing_draws_anew_at_any_size(void **state)
{
    static const int sizes[][2] = {{60, 200}, {10, 40}, {4, 20}, {1, 1}, {30, 100}, {2, 300}};

    (void)state;
    start(NULL, 24, 80);
    pty_wait(p, "[1 Design]");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pty_resize(p, sizes[i][0], sizes[i][1]);
        if (sizes[i][0] > 1)
            pty_wait(p, sizes[i][0] >= 8 ? "[1 Design]" : "total");
    }
    pty_resize(p, 24, 80);
    pty_wait(p, "[1 Design]");
    pty_wait(p, "same as: ");
    pty_send(p, "q");
    assert_int_equal(pty_wait_exit(p), 0);
}

static void what_is_no_key_changes_nothing(void **state)
{
    static const char junk[] = "\033[<0;10;1M\033[<0;10;1m\033[<35;10;5M\033[M !!\033[I\033[O\033[?62;22c"
                               "\033[200~qkKvR\033[201~\033]11;rgb:0/0/0\a\033P1$rq\033\\\033[99~";
    char before[8192];

    (void)state;
    start(NULL, 24, 80);
    pty_wait(p, "[1 Design]");
    pty_send(p, "0"); // takes the greeting away
    pty_wait_gone(p, "move with");
    snprintf(before, sizeof before, "%s", pty_text(p));
    pty_send(p, junk);
    pty_wait(p, "no list of numbers, and no profile");
    pty_send(p, "0");
    pty_wait_gone(p, "and no profile");
    assert_string_equal(pty_text(p), before);
    pty_send(p, "a paste that no terminal marked\rquit? w yes");
    pty_wait(p, "no list of numbers, and no profile");
    pty_send(p, "\033[H"); // no text: so soon that would count as more of it
    pty_wait_gone(p, "and no profile");
    assert_string_equal(pty_text(p), before);
}

static void a_terminal_that_cannot_is_told_what_to_do(void **state)
{
    const char *unknown[] = {"TERM=no-such-thing", NULL, false},
               *dumb[] = {"TERM=dumb", NULL, false};

    (void)state;
    start(unknown, 24, 200);
    pty_wait(p, "'no-such-thing'");
    pty_wait(p, "TERM=xterm-256color");
    assert_int_equal(pty_wait_exit(p), 2);
    start(dumb, 24, 200);
    pty_wait(p, "lathe watch RUN --once");
    assert_int_equal(pty_wait_exit(p), 2);
    assert_false(sent("\033"));
}

static void a_line_that_takes_nothing_gets_the_newest_picture(void **state)
{
    char keys[1201];

    (void)state;
    memset(keys, 0, sizeof keys);
    for (size_t i = 0; i + 1 < sizeof keys; i += 2)
        memcpy(keys + i, i % 8 < 4 ? "lk" : "hj", 2);
    start(NULL, 60, 200);
    pty_wait(p, "[1 Design]");
    for (size_t i = 0; i + 1 < sizeof keys; i += 100) { // nobody reads meanwhile
        char part[101];

        snprintf(part, sizeof part, "%.100s", keys + i);
        pty_send(p, part);
    }
    pty_send(p, "V");
    pty_wait(p, "layers 0-7");
}

static void hanging_up_ends_the_workbench(void **state)
{
    int code;

    (void)state;
    start(NULL, 24, 80);
    pty_wait(p, "[1 Design]");
    pty_hang_up(p);
    code = pty_wait_exit(p);
    assert_true(code == 128 + SIGHUP || code == 0);
}

// ---- writes, counted inside the program ---------------------------------------------------------

enum { FRAMES = 50 };

static int draw_frames(void *arg)
{
    struct term_options o = {.max_color = COLOR_256, .utf8 = 1};
    struct term_stats before, after;
    struct canvas c;
    struct err err = ERR_INIT;
    bool ok;

    (void)arg;
    if (term_open(&o, &err) < 0)
        return 10;
    canvas_init(&c, 24, 80, true);
    term_draw(&c);
    before = term_stats();
    for (int i = 0; i < FRAMES; i++) {
        struct pollfd room = {term_fd(), POLLOUT, 0};

        canvas_fmt(&c, NULL, i % 24, i, (enum role)(i % ROLE_COUNT), "frame %d", i);
        poll(&room, 1, PTY_SECONDS * 1000);
        term_draw(&c);
        term_draw(&c); // nothing changed: nothing is written
    }
    after = term_stats();
    term_close();
    canvas_release(&c);
    ok = after.frames - before.frames == FRAMES && after.writes - before.writes == FRAMES;
    return ok ? 0 : 1;
}

static int count_of(const char *bytes)
{
    const struct buf *raw = pty_raw(p);
    const char *at = raw->data, *end = raw->data + raw->len;
    int n = 0;

    while ((at = memmem(at, (size_t)(end - at), bytes, strlen(bytes)))) {
        at += strlen(bytes);
        n++;
    }
    return n;
}

static void a_frame_is_one_write_between_its_marks(void **state)
{
    (void)state;
    pty_free(p);
    p = pty_start_fn(draw_frames, NULL, NULL, 24, 80);
    assert_int_equal(pty_wait_exit(p), 0);
    assert_int_equal(count_of("\033[?2026h"), FRAMES + 1);
    assert_int_equal(count_of("\033[?2026l"), FRAMES + 2); // leaving sends one more, to be safe
}

static int release(void **state)
{
    (void)state;
    pty_free(p);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_terminal_gets_only_what_it_knows),
        cmocka_unit_test(every_signal_restores_every_terminal),
        cmocka_unit_test(ctrl_z_gives_the_terminal_back_and_fg_returns),
        cmocka_unit_test(ctrl_c_asks_before_it_throws_changes_away),
        cmocka_unit_test(resizing_draws_anew_at_any_size),
        cmocka_unit_test(what_is_no_key_changes_nothing),
        cmocka_unit_test(a_terminal_that_cannot_is_told_what_to_do),
        cmocka_unit_test(a_line_that_takes_nothing_gets_the_newest_picture),
        cmocka_unit_test(hanging_up_ends_the_workbench),
        cmocka_unit_test(a_frame_is_one_write_between_its_marks),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
