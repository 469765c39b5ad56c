#include "engine/control.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/run.h"

enum {
    MAX_REPLIES = 4 * CONTROL_MAX_LINE, // bytes a client may leave unread
    RETRY_MS = 5,
    LINES_PER_STEP = 32, // requests of one client handled in a row
};

static const char socket_name[] = "control.sock";

// The requests a run understands.
static const char *const commands[] = {"status", "pause", "resume", "checkpoint", "set", "stop"};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

struct client {
    int fd; // -1 = free
    struct buf in, out;
    bool closing;   // close once `out` is sent
    unsigned stamp; // of the last activity, to find the quietest
};

struct control_server {
    int fd, dir_fd;
    control_handler *fn;
    void *user;
    unsigned stamp;
    struct client client[CONTROL_MAX_CLIENTS];
};

// ---- addresses ----------------------------------------------------------------------------------

// A socket's path may have 107 bytes, a run's path more: it is named through the descriptor of its
// directory.
static void address(int dir_fd, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(out->sun_path, sizeof out->sun_path, "/proc/self/fd/%d/%s", dir_fd, socket_name);
}

static int open_dir(const char *run_dir, struct err *err)
{
    int fd = open(run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? err_sys(err, "cannot open '%s'", run_dir) : fd;
}

static int new_socket(struct err *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd < 0 ? err_sys(err, "cannot make a socket") : fd;
}

// ---- server -------------------------------------------------------------------------------------

struct control_server *control_listen(const char *run_dir, control_handler *fn, void *user,
                                      struct err *err)
{
    struct control_server *s = xcalloc(1, sizeof *s);
    struct sockaddr_un addr;

    s->fn = fn;
    s->user = user;
    for (int i = 0; i < CONTROL_MAX_CLIENTS; i++)
        s->client[i].fd = -1;
    s->dir_fd = open_dir(run_dir, err);
    s->fd = s->dir_fd < 0 ? -1 : new_socket(err);
    if (s->fd < 0)
        goto fail;
    address(s->dir_fd, &addr);
    if (unlinkat(s->dir_fd, socket_name, 0) < 0 && errno != ENOENT) {
        err_sys(err, "cannot remove the old '%s/%s'", run_dir, socket_name);
        goto fail;
    }
    // the socket's own mode goes into the file's before the umask: no moment with a wider one
    if (fchmod(s->fd, 0600) < 0 || bind(s->fd, (struct sockaddr *)&addr, sizeof addr) < 0 ||
        listen(s->fd, CONTROL_MAX_CLIENTS) < 0) {
        err_sys(err, "cannot listen on '%s/%s'", run_dir, socket_name);
        goto fail;
    }
    return s;
fail:
    control_close(s);
    return NULL;
}

static void drop(struct client *c)
{
    close(c->fd);
    c->fd = -1;
    c->closing = false;
    buf_release(&c->in);
    buf_release(&c->out);
}

int control_pollfds(struct control_server *s, struct pollfd *fds, int max)
{
    int n = 0;

    if (n < max)
        fds[n++] = (struct pollfd){.fd = s->fd, .events = POLLIN};
    for (int i = 0; i < CONTROL_MAX_CLIENTS && n < max; i++) {
        struct client *c = &s->client[i];
        // a client with much unread is not read from: it must take its replies first
        bool listens = !c->closing && c->out.len < CONTROL_MAX_LINE;

        if (c->fd >= 0)
            fds[n++] = (struct pollfd){
                .fd = c->fd,
                .events = (short)((listens ? POLLIN : 0) | (c->out.len ? POLLOUT : 0)),
            };
    }
    return n;
}

// A place for a new client; the one that was quiet for longest makes room if need be.
static struct client *place(struct control_server *s)
{
    struct client *quietest = &s->client[0];

    for (int i = 0; i < CONTROL_MAX_CLIENTS; i++) {
        if (s->client[i].fd < 0)
            return &s->client[i];
        if ((int)(s->client[i].stamp - quietest->stamp) < 0)
            quietest = &s->client[i];
    }
    drop(quietest);
    return quietest;
}

static void accept_all(struct control_server *s)
{
    for (int i = 0; i < CONTROL_MAX_CLIENTS; i++) {
        int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct client *c;

        if (fd < 0)
            return;
        c = place(s);
        *c = (struct client){.fd = fd, .stamp = ++s->stamp};
    }
}

static json_t *failure(const char *text)
{
    return json_pack("{s:b, s:s}", "ok", 0, "error", text);
}

static void reply(struct client *c, json_t *j)
{
    char *text = json_dumps(j, JSON_COMPACT);

    BUG_IF(!text);
    buf_str(&c->out, text);
    buf_str(&c->out, "\n");
    free(text);
    json_decref(j);
}

static json_t *answer(struct control_server *s, const char *line, size_t len)
{
    json_t *request = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL), *result = NULL;
    const char *cmd = json_string_value(json_object_get(request, "cmd"));
    bool known = false;

    for (int i = 0; cmd && i < N_COMMANDS; i++)
        known = known || !strcmp(cmd, commands[i]);
    if (!json_is_object(request))
        result = failure("a request is one JSON object in a line");
    else if (json_integer_value(json_object_get(request, "v")) != 1)
        result = failure("\"v\" must be 1, the version of this protocol");
    else if (!known)
        result = failure("\"cmd\" must be status, pause, resume, checkpoint, set or stop");
    else
        result = s->fn(s->user, cmd, request);
    json_decref(request);
    return result ? result : failure("the run cannot do that now");
}

static void handle_lines(struct control_server *s, struct client *c)
{
    char *newline;

    for (int i = 0; i < LINES_PER_STEP && c->out.len < MAX_REPLIES; i++) {
        newline = c->in.len ? memchr(c->in.data, '\n', c->in.len) : NULL;
        if (!newline)
            break;
        reply(c, answer(s, c->in.data, (size_t)(newline - c->in.data)));
        buf_consume(&c->in, (size_t)(newline - c->in.data) + 1);
    }
    if (c->in.len > CONTROL_MAX_LINE && !memchr(c->in.data, '\n', c->in.len)) {
        reply(c, failure("the line has more than 65536 bytes"));
        buf_reset(&c->in);
        c->closing = true;
    }
}

// false: the client is gone.
static bool receive(struct control_server *s, struct client *c)
{
    char chunk[4096];
    ssize_t n = 1;

    while (c->in.len <= CONTROL_MAX_LINE &&
           (n = recv(c->fd, chunk, sizeof chunk, MSG_DONTWAIT)) > 0) {
        buf_add(&c->in, chunk, (size_t)n);
        c->stamp = ++s->stamp;
    }
    if (n == 0)
        c->closing = true; // it may have sent a request and shut its side down
    return n >= 0 || errno == EAGAIN || errno == EINTR;
}

static bool send_replies(struct client *c)
{
    while (c->out.len) {
        ssize_t n = send(c->fd, c->out.data, c->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        buf_consume(&c->out, (size_t)n);
    }
    return !c->closing;
}

void control_step(struct control_server *s)
{
    accept_all(s);
    for (int i = 0; i < CONTROL_MAX_CLIENTS; i++) {
        struct client *c = &s->client[i];
        bool alive = c->fd >= 0;

        if (!alive)
            continue;
        if (!c->closing && c->out.len < CONTROL_MAX_LINE)
            alive = receive(s, c);
        if (alive)
            handle_lines(s, c);
        if (!alive || !send_replies(c) || c->out.len >= MAX_REPLIES)
            drop(c);
    }
}

void control_close(struct control_server *s)
{
    if (!s)
        return;
    for (int i = 0; i < CONTROL_MAX_CLIENTS; i++)
        if (s->client[i].fd >= 0)
            drop(&s->client[i]);
    if (s->fd >= 0) {
        unlinkat(s->dir_fd, socket_name, 0);
        close(s->fd);
    }
    if (s->dir_fd >= 0)
        close(s->dir_fd);
    free(s);
}

// ---- client -------------------------------------------------------------------------------------

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static const char *user_name(void)
{
    const char *name = getenv("USER");
    struct passwd *pw;

    if (name && name[0])
        return name;
    pw = getpwuid(getuid());
    return pw ? pw->pw_name : "someone";
}

static int connect_to(const char *run_dir, int64_t end, struct err *err)
{
    int dir_fd = open_dir(run_dir, err), fd = dir_fd < 0 ? -1 : new_socket(err), rc = 0;
    struct sockaddr_un addr;

    if (fd >= 0) {
        address(dir_fd, &addr);
        // EAGAIN: others wait in line, and nothing can be polled for it
        while ((rc = connect(fd, (struct sockaddr *)&addr, sizeof addr)) < 0 && errno == EAGAIN &&
               now_ms() < end)
            poll(NULL, 0, RETRY_MS);
        if (rc < 0 && (errno == ENOENT || errno == ECONNREFUSED))
            err_set(err, "no process on this machine hosts '%s'", run_dir);
        else if (rc < 0 && errno == EAGAIN)
            err_set(err, "the process that hosts '%s' does not answer", run_dir);
        else if (rc < 0)
            err_sys(err, "cannot reach '%s/%s'", run_dir, socket_name);
    }
    if (dir_fd >= 0)
        close(dir_fd);
    if (fd >= 0 && rc < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

// Waits for the descriptor; false when the time is over.
static bool wait_for(int fd, short events, int64_t end)
{
    struct pollfd p = {.fd = fd, .events = events};
    int64_t left = end - now_ms();

    while (left > 0) {
        int rc = poll(&p, 1, (int)left);

        if (rc != 0 && (rc > 0 || errno != EINTR))
            return rc > 0;
        left = end - now_ms();
    }
    return false;
}

static bool send_line(int fd, const struct buf *line, int64_t end)
{
    size_t at = 0;

    while (at < line->len) {
        ssize_t n = send(fd, line->data + at, line->len - at, MSG_NOSIGNAL);

        if (n > 0)
            at += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
            return false;
        else if (!wait_for(fd, POLLOUT, end))
            return false;
    }
    return true;
}

static bool receive_line(int fd, struct buf *line, int64_t end)
{
    char chunk[4096];

    while (!line->len || !memchr(line->data, '\n', line->len)) {
        ssize_t n = recv(fd, chunk, sizeof chunk, 0);

        if (n > 0)
            buf_add(line, chunk, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return false;
        else if (!wait_for(fd, POLLIN, end))
            return false;
        if (line->len > MAX_REPLIES)
            return false;
    }
    return true;
}

// The request as a line; `members` join it.
static void write_request(const char *cmd, const json_t *members, struct buf *line)
{
    char *who = xasprintf("%s@%s", user_name(), run_host_name()), *text;
    json_t *request = json_pack("{s:i, s:s, s:s}", "v", 1, "cmd", cmd, "who", who);

    if (!request) // the name is no UTF-8
        request = json_pack("{s:i, s:s}", "v", 1, "cmd", cmd);
    if (members)
        json_object_update_missing(request, (json_t *)(uintptr_t)members);
    text = json_dumps(request, JSON_COMPACT | JSON_REAL_PRECISION(17));
    BUG_IF(!text);
    buf_fmt(line, "%s\n", text);
    json_decref(request);
    free(text);
    free(who);
}

json_t *control_send(const char *run_dir, const char *cmd, int timeout_ms, struct err *err)
{
    return control_request(run_dir, cmd, NULL, timeout_ms, err);
}

json_t *control_request(const char *run_dir, const char *cmd, const json_t *members,
                        int timeout_ms, struct err *err)
{
    int64_t end = now_ms() + timeout_ms;
    int fd = connect_to(run_dir, end, err);
    struct buf line = {0}, got = {0};
    json_t *j = NULL;

    write_request(cmd, members, &line);
    if (fd >= 0 && send_line(fd, &line, end) && receive_line(fd, &got, end))
        j = json_loadb(got.data, strcspn(got.data, "\n"), 0, NULL);
    if (fd >= 0 && !json_is_object(j)) {
        err_set(err, "the process that hosts '%s' did not answer '%s'", run_dir, cmd);
        json_decref(j);
        j = NULL;
    }
    if (fd >= 0)
        close(fd);
    buf_release(&line);
    buf_release(&got);
    return j;
}
