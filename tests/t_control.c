// The control socket: long paths, good and bad requests, slow and dead peers.
#include "tests/t.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/control.h"
#include "engine/file.h"

// ---- a server on a thread of its own ------------------------------------------------------------

struct served {
    struct control_server *server;
    pthread_t thread;
    atomic_bool stop;
    atomic_int handled;
    atomic_long longest_us; // of one control_step
};

static json_t *handle(void *user, const char *cmd, const json_t *request)
{
    struct served *s = user;

    s->handled++;
    if (!strcmp(cmd, "stop"))
        return NULL;
    if (!strcmp(cmd, "status")) { // a large reply
        char *big = xmalloc(20001);
        json_t *j;

        memset(big, 'x', 20000);
        big[20000] = '\0';
        j = json_pack("{s:b, s:s}", "ok", 1, "big", big);
        free(big);
        return j;
    }
    return json_pack("{s:b, s:s, s:O?}", "ok", 1, "did", cmd, "who",
                     json_object_get(request, "who"));
}

static void *serve(void *user)
{
    struct served *s = user;
    struct pollfd fds[CONTROL_MAX_CLIENTS + 1];

    while (!s->stop) {
        double start;
        long us;

        poll(fds, (nfds_t)control_pollfds(s->server, fds, CONTROL_MAX_CLIENTS + 1), 20);
        start = t_now();
        control_step(s->server);
        us = (long)((t_now() - start) * 1e6);
        if (us > s->longest_us)
            s->longest_us = us;
    }
    return NULL;
}

static char run_dir[900];

static void start(struct served *s)
{
    struct err err = ERR_INIT;

    memset(s, 0, sizeof *s);
    s->server = control_listen(run_dir, handle, s, &err);
    assert_string_equal(err.text, "");
    assert_non_null(s->server);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop(struct served *s)
{
    s->stop = true;
    pthread_join(s->thread, NULL);
    control_close(s->server);
}

// A client without manners: -1 or a blocking socket with a receive timeout.
static int raw_connect(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct timeval limit = {5, 0};
    int dir = open(run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

    snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/control.sock", dir);
    rc = connect(fd, (struct sockaddr *)&addr, sizeof addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    close(dir);
    assert_int_equal(rc, 0);
    return fd;
}

static char *raw_line(int fd, char *out, size_t size)
{
    size_t n = 0;

    while (n + 1 < size && recv(fd, out + n, 1, 0) == 1 && out[n] != '\n')
        n++;
    out[n] = '\0';
    return out;
}

static void raw_send(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void expect_works(void)
{
    struct err err = ERR_INIT;
    json_t *j = control_send(run_dir, "pause", 5000, &err);

    assert_string_equal(err.text, "");
    assert_true(json_is_true(json_object_get(j, "ok")));
    json_decref(j);
}

// ---- tests --------------------------------------------------------------------------------------

static void works_under_a_path_longer_than_an_address(void **state)
{
    struct served s;
    struct stat st;
    char path[1000];
    json_t *j;

    (void)state;
    assert_true(strlen(run_dir) > 250);
    start(&s);
    snprintf(path, sizeof path, "%s/control.sock", run_dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    j = control_send(run_dir, "checkpoint", 5000, NULL);
    assert_string_equal(json_string_value(json_object_get(j, "did")), "checkpoint");
    assert_non_null(strchr(json_string_value(json_object_get(j, "who")), '@'));
    json_decref(j);
    j = control_send(run_dir, "stop", 5000, NULL);
    assert_true(json_is_false(json_object_get(j, "ok")));
    json_decref(j);
    stop(&s);
    assert_false(file_exists(path));
}

static void says_when_nothing_answers(void **state)
{
    struct err err = ERR_INIT;
    struct served s;
    char path[1000];

    (void)state;
    assert_null(control_send(run_dir, "pause", 1000, &err));
    assert_non_null(strstr(err.text, "no process on this machine hosts"));
    assert_null(control_send(t_path("nowhere"), "pause", 1000, &err));
    // a socket of a host that died is replaced
    start(&s);
    stop(&s);
    snprintf(path, sizeof path, "%s/control.sock", run_dir);
    {
        int dir = open(run_dir, O_PATH | O_DIRECTORY), fd = socket(AF_UNIX, SOCK_STREAM, 0);
        struct sockaddr_un addr = {.sun_family = AF_UNIX};

        snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/control.sock", dir);
        assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
        close(fd);
        close(dir);
    }
    assert_true(file_exists(path));
    assert_null(control_send(run_dir, "pause", 1000, &err));
    assert_non_null(strstr(err.text, "no process on this machine hosts"));
    start(&s);
    expect_works();
    stop(&s);
}

static void a_host_that_hangs_times_out(void **state)
{
    struct err err = ERR_INIT;
    struct control_server *server;
    struct served s = {0};
    double begin = t_now();

    (void)state;
    server = control_listen(run_dir, handle, &s, &err); // nobody steps it
    assert_non_null(server);
    assert_null(control_send(run_dir, "pause", 200, &err));
    assert_non_null(strstr(err.text, "did not answer 'pause'"));
    assert_true(t_now() - begin < 5);
    control_close(server);
}

static void bad_requests_get_an_error_and_nothing_happens(void **state)
{
    static const char *const bad[] = {
        "hello\n",
        "{}\n",
        "[]\n",
        "{\"v\":1}\n",
        "{\"v\":2,\"cmd\":\"pause\"}\n",
        "{\"cmd\":\"pause\"}\n",
        "{\"v\":1,\"cmd\":\"explode\"}\n",
        "{\"v\":1,\"cmd\":7}\n",
        "{\"v\":1,\"v\":1,\"cmd\":\"pause\"}\n",
        "{\"v\":1,\"cmd\":\"pause\"\n",
        "\n",
        "{\"v\":1,\"cmd\":\"\xff\xfe\"}\n",
        "\"pause\"\n",
        "{\"v\":1,\"cmd\":\"pause\"} x\n",
    };
    struct served s;
    char line[4096];
    int fd;

    (void)state;
    start(&s);
    fd = raw_connect();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        raw_send(fd, bad[i]);
        assert_non_null(strstr(raw_line(fd, line, sizeof line), "\"ok\":false"));
    }
    assert_int_equal(s.handled, 0);
    // several in one packet, one in pieces
    raw_send(fd, "{\"v\":1,\"cmd\":\"pause\"}\n{\"v\":1,\"cmd\":\"resume\"}\n{\"v\":1,");
    assert_non_null(strstr(raw_line(fd, line, sizeof line), "\"did\":\"pause\""));
    assert_non_null(strstr(raw_line(fd, line, sizeof line), "\"did\":\"resume\""));
    raw_send(fd, "\"cmd\":\"pause\"}\n");
    assert_non_null(strstr(raw_line(fd, line, sizeof line), "\"did\":\"pause\""));
    close(fd);
    stop(&s);
}

static void a_request_is_answered_after_the_peer_shut_its_side(void **state)
{
    struct served s;
    char line[4096];
    int fd;

    (void)state;
    start(&s);
    fd = raw_connect();
    raw_send(fd, "{\"v\":1,\"cmd\":\"pause\"}\n");
    shutdown(fd, SHUT_WR);
    assert_non_null(strstr(raw_line(fd, line, sizeof line), "\"ok\":true"));
    assert_int_equal(recv(fd, line, 1, 0), 0);
    close(fd);
    stop(&s);
}

static void oversized_line_is_refused_and_closed(void **state)
{
    struct served s;
    char chunk[8192], line[4096];
    int fd;

    (void)state;
    memset(chunk, 'a', sizeof chunk);
    start(&s);
    fd = raw_connect();
    for (int i = 0; i < 64; i++) // 512 KiB: the server stops reading after 64 KiB
        if (send(fd, chunk, sizeof chunk, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
    assert_non_null(strstr(raw_line(fd, line, sizeof line), "more than 65536 bytes"));
    expect_works();
    close(fd);
    stop(&s);
}

static void slow_and_silent_clients_disturb_nobody(void **state)
{
    struct served s;
    int fd[40];

    (void)state;
    start(&s);
    for (int i = 0; i < 40; i++) { // more than there is room for: the quietest are dropped
        fd[i] = raw_connect();
        raw_send(fd[i], "{\"v\":1,");
        expect_works();
    }
    for (int i = 0; i < 40; i++)
        close(fd[i]);
    // one that asks for much and reads nothing
    fd[0] = raw_connect();
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 2000; i++)
        if (send(fd[0], "{\"v\":1,\"cmd\":\"status\"}\n", 23, MSG_NOSIGNAL) < 0 && errno != EAGAIN)
            break;
    for (int i = 0; i < 20; i++)
        expect_works();
    close(fd[0]);
    // peers that vanish in the middle
    for (int i = 0; i < 50; i++) {
        fd[0] = raw_connect();
        raw_send(fd[0], "{\"v\":1,\"cmd\":\"status\"}\n{\"v\"");
        close(fd[0]);
    }
    expect_works();
    assert_true(s.longest_us < 500000);
    stop(&s);
}

static void random_bytes_never_stop_the_server(void **state)
{
    struct served s;

    (void)state;
    srand(5);
    start(&s);
    for (int round = 0; round < 200; round++) {
        unsigned char junk[600];
        int fd = raw_connect(), n = 1 + rand() % (int)sizeof junk;

        for (int i = 0; i < n; i++)
            junk[i] = rand() % 9 ? (unsigned char)"{}[]\":,1vcmd\n\\u"[rand() % 16]
                                 : (unsigned char)rand();
        if (send(fd, junk, (size_t)n, MSG_NOSIGNAL) < 0)
            assert_true(errno == EPIPE || errno == ECONNRESET);
        close(fd);
    }
    expect_works();
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(works_under_a_path_longer_than_an_address),
        cmocka_unit_test(says_when_nothing_answers),
        cmocka_unit_test(a_host_that_hangs_times_out),
        cmocka_unit_test(bad_requests_get_an_error_and_nothing_happens),
        cmocka_unit_test(a_request_is_answered_after_the_peer_shut_its_side),
        cmocka_unit_test(oversized_line_is_refused_and_closed),
        cmocka_unit_test(slow_and_silent_clients_disturb_nobody),
        cmocka_unit_test(random_bytes_never_stop_the_server),
    };

    snprintf(run_dir, sizeof run_dir, "%s/%0*d/%0*d", t_dir(), 120, 1, 120, 2);
    if (file_mkdirs(run_dir, 0700, NULL) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
