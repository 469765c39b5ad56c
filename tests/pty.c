#include "tests/pty.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>
#include <vterm.h>

#include "engine/file.h"
#include "tests/t.h"
#include "tui/utf8.h"

struct pty {
    int fd, pid, rows, cols;
    VTerm *vt;
    VTermScreen *screen;
    bool alt, cursor, ended;
    int status; // of waitpid, once `reaped`
    bool reaped;
    struct buf raw, text;
};

// ---- the terminal -------------------------------------------------------------------------------

static int on_prop(VTermProp prop, VTermValue *value, void *user)
{
    struct pty *p = user;

    if (prop == VTERM_PROP_ALTSCREEN)
        p->alt = value->boolean;
    if (prop == VTERM_PROP_CURSORVISIBLE)
        p->cursor = value->boolean;
    return 1;
}

static void on_answer(const char *bytes, size_t n, void *user)
{
    struct pty *p = user;

    if (write(p->fd, bytes, n) < 0)
        p->ended = true;
}

static const VTermScreenCallbacks callbacks = {.settermprop = on_prop};

static void open_vterm(struct pty *p)
{
    p->vt = vterm_new(p->rows, p->cols);
    vterm_set_utf8(p->vt, 1);
    vterm_output_set_callback(p->vt, on_answer, p);
    p->screen = vterm_obtain_screen(p->vt);
    vterm_screen_enable_altscreen(p->screen, 1);
    vterm_screen_set_callbacks(p->screen, &callbacks, p);
    vterm_screen_reset(p->screen, 1);
    p->cursor = true;
}

// ---- the program --------------------------------------------------------------------------------

static void set_env(const char *entry)
{
    const char *equals = strchr(entry, '=');
    char name[64];

    if (!equals) {
        unsetenv(entry);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - entry), entry);
    setenv(name, equals + 1, 1);
}

// Each program has a home of its own for what was not saved, unless a test says where.
static void set_state_home(void)
{
    char name[48];

    snprintf(name, sizeof name, "state-%d", (int)getpid());
    setenv("XDG_STATE_HOME", t_path(name), 1);
}

static void child_env(const char *const *env)
{
    set_state_home();
    setenv("TERM", "xterm-256color", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("NO_COLOR");
    unsetenv("LINES");
    unsetenv("COLUMNS");
    for (; env && *env; env++)
        set_env(*env);
}

static struct pty *start(int rows, int cols, const char *const *env)
{
    struct pty *p = xcalloc(1, sizeof *p);
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    int slave;

    p->rows = rows;
    p->cols = cols;
    assert_int_equal(openpty(&p->fd, &slave, NULL, NULL, &size), 0);
    fflush(NULL);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        close(p->fd);
        login_tty(slave);
        child_env(env);
        return NULL;
    }
    close(slave);
    open_vterm(p);
    return p;
}

static void exec_argv(const char *const *argv)
{
    execv(argv[0], (char *const *)(uintptr_t)argv);
    fprintf(stderr, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

struct pty *pty_start(const char *const *argv, const char *const *env, int rows, int cols)
{
    struct pty *p = start(rows, cols, env);

    if (!p)
        exec_argv(argv);
    return p;
}

struct pty *pty_start_fn(int (*fn)(void *arg), void *arg, const char *const *env, int rows,
                         int cols)
{
    struct pty *p = start(rows, cols, env);

    if (!p)
        _exit(fn(arg));
    return p;
}

static void say(const char *fmt, ...)
{
    char text[128];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (write_all(1, text, strlen(text)) < 0)
        _exit(1);
}

static bool same_modes(const struct termios *a)
{
    struct termios now;

    return tcgetattr(0, &now) == 0 && now.c_lflag == a->c_lflag && now.c_iflag == a->c_iflag &&
           now.c_oflag == a->c_oflag;
}

static void shell(const char *const *argv)
{
    struct termios mine;
    int status, job;
    char line[16];

    signal(SIGTTOU, SIG_IGN);
    signal(SIGTSTP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    tcgetattr(0, &mine);
    job = fork();
    if (job == 0) {
        setpgid(0, 0);
        tcsetpgrp(0, getpid());
        for (int sig = 1; sig < 32; sig++)
            signal(sig, SIG_DFL);
        say("[job %d]\r\n", (int)getpid());
        exec_argv(argv);
    }
    while (waitpid(job, &status, WUNTRACED) > 0 && WIFSTOPPED(status)) {
        tcsetpgrp(0, getpgrp());
        say("[stopped, modes %s]\r\n", same_modes(&mine) ? "as found" : "changed");
        if (read(0, line, sizeof line) <= 0)
            break;
        tcsetpgrp(0, job);
        kill(-job, SIGCONT);
    }
    tcsetpgrp(0, getpgrp());
    say("[ended %d, modes %s]\r\n",
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
        same_modes(&mine) ? "as found" : "changed");
    _exit(0);
}

struct pty *pty_start_job(const char *const *argv, const char *const *env, int rows, int cols)
{
    struct pty *p = start(rows, cols, env);

    if (!p)
        shell(argv);
    return p;
}

void pty_free(struct pty *p)
{
    if (!p)
        return;
    if (p->fd >= 0)
        close(p->fd);
    if (!p->reaped) {
        kill(p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
    }
    vterm_free(p->vt);
    buf_release(&p->raw);
    buf_release(&p->text);
    free(p);
}

void pty_send(struct pty *p, const char *bytes)
{
    assert_int_equal(write_all(p->fd, bytes, strlen(bytes)), 0);
}

void pty_resize(struct pty *p, int rows, int cols)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};

    p->rows = rows;
    p->cols = cols;
    vterm_set_size(p->vt, rows, cols);
    assert_int_equal(ioctl(p->fd, TIOCSWINSZ, &size), 0);
}

int pty_pid(const struct pty *p)
{
    return p->pid;
}

int pty_job(struct pty *p)
{
    static const char mark[] = "[job ";
    double end = t_now() + PTY_SECONDS;
    const char *at = NULL;

    while (!at || !strchr(at, ']')) {
        if (t_now() > end)
            fail_msg("the program was not started:\n%s", pty_text(p));
        pty_pump(p, 50);
        at = p->raw.data ? strstr(p->raw.data, mark) : NULL;
    }
    return atoi(at + sizeof mark - 1);
}

void pty_hang_up(struct pty *p)
{
    close(p->fd);
    p->fd = -1;
    p->ended = true;
}

// ---- waiting ------------------------------------------------------------------------------------

bool pty_pump(struct pty *p, int ms)
{
    struct pollfd f = {p->fd, POLLIN, 0};
    char bytes[8192];
    ssize_t n;

    while (!p->ended && poll(&f, 1, ms) > 0) {
        n = read(p->fd, bytes, sizeof bytes);
        if (n <= 0) {
            p->ended = n == 0 || errno != EINTR;
            continue;
        }
        buf_add(&p->raw, bytes, (size_t)n);
        vterm_input_write(p->vt, bytes, (size_t)n);
        vterm_screen_flush_damage(p->screen);
        ms = 0;
    }
    return !p->ended;
}

bool pty_has(struct pty *p, const char *text)
{
    return strstr(pty_text(p), text) != NULL;
}

// Between the marks of a synchronised frame: half of it may not have come yet.
static bool inside_frame(const struct pty *p)
{
    static const char mark[] = "\033[?2026";
    size_t n = sizeof mark - 1;

    for (size_t i = p->raw.len; i >= n + 1; i--)
        if (!memcmp(p->raw.data + i - n - 1, mark, n))
            return p->raw.data[i - 1] == 'h';
    return false;
}

static void wait_for(struct pty *p, const char *text, bool there)
{
    double end = t_now() + PTY_SECONDS;

    while (inside_frame(p) || pty_has(p, text) != there) {
        if (t_now() > end || p->ended)
            fail_msg("'%s' is %s:\n%s", text, there ? "not shown" : "still shown", pty_text(p));
        pty_pump(p, 50);
    }
}

void pty_wait(struct pty *p, const char *text)
{
    wait_for(p, text, true);
}

void pty_wait_gone(struct pty *p, const char *text)
{
    wait_for(p, text, false);
}

bool pty_wait_either(struct pty *p, const char *a, const char *b)
{
    double end = t_now() + PTY_SECONDS;

    while (!pty_has(p, a) && !pty_has(p, b)) {
        if (t_now() > end)
            fail_msg("neither '%s' nor '%s' is shown:\n%s", a, b, pty_text(p));
        pty_pump(p, 50);
    }
    return pty_has(p, a);
}

int pty_wait_exit(struct pty *p)
{
    double end = t_now() + PTY_SECONDS;

    while (!p->reaped) {
        pty_pump(p, 10);
        p->reaped = waitpid(p->pid, &p->status, WNOHANG) == p->pid;
        if (t_now() > end)
            fail_msg("the program does not end:\n%s", pty_text(p));
    }
    pty_pump(p, 0);
    return WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 128 + WTERMSIG(p->status);
}

// ---- looking ------------------------------------------------------------------------------------

static void add_row(struct pty *p, int row)
{
    size_t start = p->text.len;

    for (int col = 0; col < p->cols; col++) {
        VTermScreenCell cell;
        char utf8[8];

        vterm_screen_get_cell(p->screen, (VTermPos){row, col}, &cell);
        if (cell.chars[0] == (uint32_t)-1)
            continue; // right half of a wide character
        if (!cell.chars[0])
            buf_str(&p->text, " ");
        else
            buf_add(&p->text, utf8, (size_t)utf8_put(utf8, cell.chars[0]));
    }
    while (p->text.len > start && p->text.data[p->text.len - 1] == ' ')
        p->text.len--;
    p->text.data[p->text.len] = 0;
}

const char *pty_text(struct pty *p)
{
    buf_reset(&p->text);
    for (int row = 0; row < p->rows; row++) {
        add_row(p, row);
        buf_str(&p->text, "\n");
    }
    return p->text.data;
}

const char *pty_row(struct pty *p, int row)
{
    buf_reset(&p->text);
    buf_str(&p->text, "");
    add_row(p, row);
    return p->text.data;
}

bool pty_reverse(struct pty *p, int row, int col)
{
    VTermScreenCell cell;

    vterm_screen_get_cell(p->screen, (VTermPos){row, col}, &cell);
    return cell.attrs.reverse;
}

bool pty_colored(struct pty *p)
{
    VTermScreenCell cell;

    for (int row = 0; row < p->rows; row++)
        for (int col = 0; col < p->cols; col++) {
            vterm_screen_get_cell(p->screen, (VTermPos){row, col}, &cell);
            if (!VTERM_COLOR_IS_DEFAULT_FG(&cell.fg) || !VTERM_COLOR_IS_DEFAULT_BG(&cell.bg))
                return true;
        }
    return false;
}

bool pty_alt_screen(const struct pty *p)
{
    return p->alt;
}

bool pty_cursor_visible(const struct pty *p)
{
    return p->cursor;
}

struct buf *pty_raw(struct pty *p)
{
    return &p->raw;
}
