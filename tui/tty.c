#include "tui/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { N_FATAL = 6, N_FLAGGED = 6, SEQUENCE_SIZE = 256, ALT_STACK = 32768 };

static const int fatal[N_FATAL] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT};
static const struct {
    int signal;
    enum tty_event event;
} flagged[N_FLAGGED] = {
    {SIGWINCH, TTY_RESIZED},
    {SIGTSTP, TTY_SUSPEND},
    {SIGCONT, TTY_CONTINUED},
    {SIGINT, TTY_INTERRUPT},
    {SIGTERM, TTY_END},
    {SIGHUP, TTY_END},
};

static struct {
    int fd, signal_fd;
    bool own_fd; // a description of our own: non-blocking without changing the shell's
    struct termios found;
    char enter[SEQUENCE_SIZE], leave[SEQUENCE_SIZE];
    struct sigaction old_fatal[N_FATAL], old_flagged[N_FLAGGED];
    char alt_stack[ALT_STACK];
} tty = {.fd = -1, .signal_fd = -1};

static volatile sig_atomic_t taken;           // the screen is ours
static volatile sig_atomic_t came[N_FLAGGED]; // one per row of flagged[]
static volatile sig_atomic_t ending;          // the signal that asked for the end

int tty_open(struct err *err)
{
    const char *name = ttyname(STDOUT_FILENO);

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return err_set(err, "the workbench needs a terminal; without one: lathe train PROFILE, "
                            "lathe watch RUN --once, lathe help");
    tty.fd = name ? open(name, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) : -1;
    tty.own_fd = tty.fd >= 0;
    if (!tty.own_fd)
        tty.fd = STDOUT_FILENO;
    if (tcgetattr(tty.fd, &tty.found) < 0)
        return err_sys(err, "cannot read the terminal's modes");
    tty.signal_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (tty.signal_fd < 0)
        return err_sys(err, "cannot make an event descriptor");
    return 0;
}

void tty_close(void)
{
    if (tty.own_fd)
        close(tty.fd);
    if (tty.signal_fd >= 0)
        close(tty.signal_fd);
    tty.fd = tty.signal_fd = -1;
    tty.own_fd = false;
}

int tty_fd(void)
{
    return tty.fd;
}

void tty_size(int *rows, int *cols)
{
    struct winsize ws = {0};

    if (ioctl(tty.fd, TIOCGWINSZ, &ws) < 0 || ws.ws_row == 0 || ws.ws_col == 0)
        ws = (struct winsize){.ws_row = 24, .ws_col = 80};
    *rows = ws.ws_row;
    *cols = ws.ws_col;
}

void tty_set_sequences(const char *enter, const char *leave)
{
    snprintf(tty.enter, sizeof tty.enter, "%s", enter);
    snprintf(tty.leave, sizeof tty.leave, "%s", leave);
}

// The whole of a short sequence; gives up on a terminal that takes nothing for a second.
static void write_sequence(const char *s)
{
    size_t n = strlen(s);

    while (n > 0) {
        ssize_t w = write(tty.fd, s, n);

        if (w > 0) {
            s += w;
            n -= (size_t)w;
        } else if (w < 0 && errno == EAGAIN) {
            struct pollfd p = {tty.fd, POLLOUT, 0};

            if (poll(&p, 1, 1000) <= 0)
                return;
        } else if (w == 0 || errno != EINTR) {
            return;
        }
    }
}

void tty_take(void)
{
    struct termios raw = tty.found;

    // ISIG stays: ctrl-C and ctrl-Z mean what they mean everywhere
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
    raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR | ISTRIP);
    raw.c_oflag &= ~(tcflag_t)OPOST;
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    taken = 1;
    tcsetattr(tty.fd, TCSANOW, &raw);
    write_sequence(tty.enter);
}

void tty_restore(void)
{
    int saved_errno = errno;

    if (!taken)
        return;
    taken = 0;
    write_sequence(tty.leave);
    tcsetattr(tty.fd, TCSANOW, &tty.found);
    errno = saved_errno;
}

static void on_fatal(int sig)
{
    tty_restore();
    signal(sig, SIG_DFL);
    raise(sig);
}

static void on_flagged(int sig)
{
    int saved_errno = errno;
    uint64_t one = 1;

    for (int i = 0; i < N_FLAGGED; i++) {
        if (flagged[i].signal != sig)
            continue;
        if (flagged[i].event == TTY_END && ending)
            on_fatal(sig); // the loop had its chance
        if (flagged[i].event == TTY_END)
            ending = sig;
        came[i] = 1;
    }
    if (write(tty.signal_fd, &one, sizeof one) < 0)
        errno = saved_errno; // full: it is readable already
    errno = saved_errno;
}

static void install_fatal(void)
{
    stack_t stack = {.ss_sp = tty.alt_stack, .ss_size = sizeof tty.alt_stack};
    struct sigaction sa = {.sa_handler = on_fatal, .sa_flags = SA_ONSTACK};

    sigaltstack(&stack, NULL);
    sigfillset(&sa.sa_mask); // SIGTTOU too: tcsetattr from the background must not stop us
    for (int i = 0; i < N_FATAL; i++) {
        sigaction(fatal[i], NULL, &tty.old_fatal[i]);
        if (tty.old_fatal[i].sa_handler != SIG_IGN) // nohup stays nohup
            sigaction(fatal[i], &sa, NULL);
    }
}

void tty_signals(bool on)
{
    struct sigaction sa = {.sa_handler = on_flagged, .sa_flags = SA_RESTART};

    if (on) {
        install_fatal();
        for (int i = 0; i < N_FLAGGED; i++) {
            sigaction(flagged[i].signal, NULL, &tty.old_flagged[i]);
            // nohup stays nohup
            if (flagged[i].event != TTY_END || tty.old_flagged[i].sa_handler != SIG_IGN)
                sigaction(flagged[i].signal, &sa, NULL);
        }
        return;
    }
    for (int i = 0; i < N_FATAL; i++)
        sigaction(fatal[i], &tty.old_fatal[i], NULL);
    for (int i = 0; i < N_FLAGGED; i++)
        sigaction(flagged[i].signal, &tty.old_flagged[i], NULL);
}

int tty_signal_fd(void)
{
    return tty.signal_fd;
}

int tty_events(void)
{
    uint64_t count;
    int events = 0;

    if (read(tty.signal_fd, &count, sizeof count) < 0)
        return 0;
    for (int i = 0; i < N_FLAGGED; i++)
        if (came[i]) {
            came[i] = 0;
            events |= flagged[i].event;
        }
    return events;
}

int tty_end_signal(void)
{
    return ending;
}

void tty_stop(void)
{
    struct sigaction mine;

    sigaction(SIGTSTP, NULL, &mine);
    signal(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    sigaction(SIGTSTP, &mine, NULL);
}

long tty_write(const void *data, size_t n)
{
    ssize_t w = write(tty.fd, data, n);

    if (w >= 0)
        return w;
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}
