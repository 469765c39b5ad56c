// Starting a run as a process of its own.
#include "engine/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/file.h"

enum {
    POLL_MS = 20,
    GRACE_MS = 1000,     // after "starting" appeared: data that is refused fails within this
    MAX_LOG_TAIL = 4096, // bytes of log.txt searched for a reason
};

// What the children tell through the pipe, in any order.
struct news {
    enum { NEWS_PID, NEWS_ERRNO } kind;
    int value;
};

struct spawn {
    char *argv[10];
    char *dir, *log_path;
    int report[2], log_fd, null_fd;
    long long log_start; // log.txt before the start
    pid_t pid;
    int pid_fd;
};

// ---- the child ----------------------------------------------------------------------------------

static void tell(int fd, int kind, int value)
{
    struct news n = {.value = value};

    n.kind = kind;
    if (write(fd, &n, sizeof n) != sizeof n)
        _exit(126);
}

static void close_above(int first)
{
    if (syscall(SYS_close_range, (unsigned)first, ~0U, 0) == 0)
        return;
    for (int fd = first; fd < 65536; fd++)
        close(fd);
}

static const char *program;

void host_set_program(const char *path)
{
    program = path;
}

// Between fork and exec: async-signal-safe calls only.
static _Noreturn void become_host(const struct spawn *s)
{
    int report = fcntl(s->report[1], F_DUPFD_CLOEXEC, 10), log = fcntl(s->log_fd, F_DUPFD, 10);
    int null = fcntl(s->null_fd, F_DUPFD, 10);
    sigset_t none;

    if (dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0 ||
        dup3(report, 3, O_CLOEXEC) < 0) {
        tell(s->report[1], NEWS_ERRNO, errno);
        _exit(127);
    }
    close_above(4);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGHUP, SIG_IGN);
    execv(program, s->argv);
    tell(3, NEWS_ERRNO, errno);
    _exit(127);
}

// The child in between ends at once, so that the host is nobody's zombie and no session leader that
// could get a terminal.
static _Noreturn void middle(const struct spawn *s)
{
    pid_t pid;

    setsid();
    pid = fork();
    if (pid == 0)
        become_host(s);
    tell(s->report[1], pid < 0 ? NEWS_ERRNO : NEWS_PID, pid < 0 ? errno : (int)pid);
    _exit(0);
}

// ---- the parent ---------------------------------------------------------------------------------

static int start_process(struct spawn *s, struct err *err)
{
    int failed = 0;
    struct news n;
    ssize_t got;
    pid_t child = fork();

    if (child == 0)
        middle(s);
    if (child < 0)
        return err_sys(err, "cannot start a process");
    close(s->report[1]);
    s->report[1] = -1;
    // ends when the new program closes its side
    while ((got = read(s->report[0], &n, sizeof n)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got != sizeof n)
            break;
        if (n.kind == NEWS_PID)
            s->pid = n.value;
        else
            failed = n.value;
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    if (failed || s->pid <= 0) {
        errno = failed ? failed : ECHILD;
        return err_sys(err, "cannot start a process for '%s'", s->dir);
    }
    s->pid_fd = (int)syscall(SYS_pidfd_open, s->pid, 0);
    return 0;
}

// Waits a moment; false when the process has ended.
static bool still_there(const struct spawn *s)
{
    struct pollfd p = {.fd = s->pid_fd, .events = POLLIN};

    if (s->pid_fd >= 0)
        return poll(&p, 1, POLL_MS) <= 0;
    poll(NULL, 0, POLL_MS); // a kernel before 5.3
    return kill(s->pid, 0) == 0;
}

// The last line that the process wrote to log.txt, without "lathe: ".
static int reason_from_log(const struct spawn *s, struct err *err)
{
    char text[MAX_LOG_TAIL + 1], *line = text, *end;
    int fd = open(s->log_path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    ssize_t n = 0;
    long long from;

    if (fd >= 0 && fstat(fd, &st) == 0) {
        from = st.st_size - MAX_LOG_TAIL;
        n = pread(fd, text, MAX_LOG_TAIL, from > s->log_start ? from : s->log_start);
    }
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    end = text + strlen(text);
    while (end > text && end[-1] == '\n')
        *--end = '\0';
    if (strrchr(text, '\n'))
        line = strrchr(text, '\n') + 1;
    if (!strncmp(line, "lathe: ", 7))
        line += 7;
    if (!*line)
        return err_set(err, "the process for '%s' ended without a word", s->dir);
    return err_set(err, "%s", line);
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int wait_for_start(const struct spawn *s, int timeout_ms, struct err *err)
{
    double end = now_ms() + timeout_ms, starting = 0;
    struct run_status st;

    for (;;) {
        bool there = still_there(s);
        bool known = run_read_status(s->dir, &st, NULL) == 0 && st.pid == (int)s->pid;

        if (known && st.state == RUN_FAILED)
            return err_set(err, "%s", st.reason);
        if (known && st.state != RUN_NEW && st.state != RUN_STARTING && st.state != RUN_LOST)
            return 0;
        if (!there)
            return reason_from_log(s, err);
        if (known && st.state == RUN_STARTING) {
            starting = starting > 0 ? starting : now_ms();
            if (now_ms() - starting > GRACE_MS)
                return 0;
        }
        if (now_ms() > end)
            return starting > 0 ? 0
                                : err_set(err, "process %d for '%s' gave no sign within %d ms",
                                          (int)s->pid, s->dir, timeout_ms);
    }
}

static int open_ends(struct spawn *s, struct err *err)
{
    struct stat st;

    s->log_fd = open(s->log_path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0600);
    if (s->log_fd < 0)
        return err_sys(err, "cannot open '%s'", s->log_path);
    if (fstat(s->log_fd, &st) == 0)
        s->log_start = (long long)st.st_size;
    s->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (s->null_fd < 0 || pipe2(s->report, O_CLOEXEC) < 0)
        return err_sys(err, "cannot start a process");
    return 0;
}

int host_spawn(const char *run_dir, const char *backend, int timeout_ms, struct err *err)
{
    struct spawn s = {.report = {-1, -1}, .log_fd = -1, .null_fd = -1, .pid_fd = -1};
    int fds[5], n = 0, rc = -1;

    if (!program)
        return err_set(err, "this program cannot start runs; use: lathe train --resume '%s'",
                       run_dir);
    s.dir = realpath(run_dir, NULL); // the new process may be told of another --runs
    if (!s.dir)
        return err_sys(err, "cannot find '%s'", run_dir);
    s.log_path = xasprintf("%s/log.txt", s.dir);
    {
        const char *const words[] = {"lathe",  "train",     "--resume",
                                     s.dir,    "--backend", backend ? backend : "auto",
                                     "--quiet"};

        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            s.argv[i] = (char *)(uintptr_t)words[i];
    }
    if (open_ends(&s, err) == 0 && start_process(&s, err) == 0)
        rc = wait_for_start(&s, timeout_ms, err);
    fds[n++] = s.report[0];
    fds[n++] = s.report[1];
    fds[n++] = s.log_fd;
    fds[n++] = s.null_fd;
    fds[n++] = s.pid_fd;
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(s.log_path);
    free(s.dir);
    return rc;
}
