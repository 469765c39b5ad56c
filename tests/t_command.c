// Commands to a real run: set on the command line, who may read what, and a socket under fire while the
// run steps: its bits are those of a run that was left alone.
#include "tests/t.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/cli.h"
#include "engine/file.h"
#include "engine/host.h"
#include "tests/hosted.h"

static char *path_in(const char *dir, const char *rest)
{
    static char path[4][800];
    static int at;

    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", dir, rest);
    return path[at];
}

// ---- the socket ---------------------------------------------------------------------------------

static int connect_raw(const char *dir)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int d = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/control.sock", d);
    if (connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0) {
        close(fd);
        fd = -1;
    }
    close(d);
    return fd;
}

static void throw_at(int fd, const void *data, size_t len)
{
    if (fd >= 0 && send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        errno = 0;
}

// Whole requests that must be refused, or only ask.
static const char *const hostile[] = {
    "{\"v\":1,\"cmd\":\"status\"}\n",
    "{\"v\":1,\"cmd\":\"set\"}\n",
    "{\"v\":1,\"cmd\":\"set\",\"key\":\"lr\"}\n",
    "{\"v\":1,\"cmd\":\"set\",\"key\":\"lr\",\"value\":\"1\"}\n",
    "{\"v\":1,\"cmd\":\"set\",\"key\":\"lr\",\"value\":-1}\n",
    "{\"v\":1,\"cmd\":\"set\",\"key\":\"lr\",\"value\":0}\n",
    "{\"v\":1,\"cmd\":\"set\",\"key\":\"lr\",\"value\":1e400}\n",
    "{\"v\":1,\"cmd\":\"set\",\"key\":\"lr\",\"value\":1,\"at\":-5}\n",
    "{\"v\":1,\"cmd\":\"set\",\"key\":\"lr\",\"value\":1,\"at\":1.5}\n",
    "{\"v\":1,\"cmd\":\"set\",\"key\":\"lr\",\"value\":1,\"at\":9223372036854775807}\n",
    "{\"v\":1,\"cmd\":\"set\",\"key\":\"max_steps\",\"value\":-9223372036854775808}\n",
    "{\"v\":1,\"cmd\":\"set\",\"key\":\"max_steps\",\"value\":1e18}\n",
    "{\"v\":1,\"cmd\":\"set\",\"key\":\"max_tokens\",\"value\":0}\n",
    "{\"v\":1,\"cmd\":\"set\",\"key\":\"seed\",\"value\":1}\n",
    "{\"v\":1,\"cmd\":\"pause\",\"cmd\":\"stop\"}\n",
    "{\"v\":1,\"cmd\":[\"stop\"]}\n",
    "{\"v\":1,\"cmd\":\"resume\",\"who\":\"\\u0000\\u001b[2J\"}\n",
};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0], CROWD = 100 };

static void throw_something(int fd)
{
    static char big[100000];
    unsigned char junk[512];

    switch (rand() % 4) {
    case 0:
        for (size_t i = 0; i < sizeof junk; i++)
            junk[i] = (unsigned char)rand();
        throw_at(fd, junk, 1 + (size_t)rand() % sizeof junk);
        break;
    case 1:
        memset(big, '{', sizeof big);
        throw_at(fd, big, sizeof big);
        break;
    case 2: // half a line
        throw_at(fd, hostile[0], 1 + (size_t)rand() % 15);
        break;
    default: {
        const char *line = hostile[rand() % N_HOSTILE];

        throw_at(fd, line, strlen(line));
    }
    }
}

static void a_socket_under_fire_does_not_disturb_the_run(void **state)
{
    const char *whole = hosted_create("whole", HOSTED_STEPS);
    const char *dir = hosted_create("fire", HOSTED_STEPS);
    pid_t pid = hosted_start_paused(dir);
    int fd[CROWD], deaf, thrown = 0, rc = 0;

    (void)state;
    assert_int_equal(hosted_wait_exit(hosted_start(whole)), CLI_OK);
    srand(14);
    for (int i = 0; i < CROWD; i++)
        fd[i] = -1;
    assert_true(hosted_command(dir, "resume"));
    deaf = connect_raw(dir); // never reads
    for (; waitpid(pid, &rc, WNOHANG) == 0; thrown++) {
        int i = rand() % CROWD;

        throw_at(deaf, hostile[0], strlen(hostile[0]));
        if (fd[i] < 0)
            fd[i] = connect_raw(dir);
        throw_something(fd[i]);
        if (fd[i] >= 0 && rand() % 3 == 0) {
            close(fd[i]);
            fd[i] = -1;
        }
        if (thrown % 50 == 0)
            usleep(1000); // two processes may share one core
    }
    for (int i = 0; i < CROWD; i++)
        close(fd[i]);
    close(deaf);
    assert_true(thrown > 100);
    assert_true(WIFEXITED(rc) && WEXITSTATUS(rc) == CLI_OK);
    assert_false(file_exists(path_in(dir, "changes.json")));
    hosted_same_file(whole, dir, "ckpt/800/model.safetensors");
    hosted_same_series(whole, dir, HOSTED_STEPS);
}

// ---- privacy and the command line ---------------------------------------------------------------

static int check_mode(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    mode_t want = type == FTW_D ? 0700 : 0600;

    (void)ftw;
    if ((st->st_mode & 0777) != want) {
        print_error("%s has mode %o\n", path, st->st_mode & 0777);
        return 1;
    }
    return 0;
}

static void generous_umask(void)
{
    umask(0);
}

static void a_run_is_private_to_its_user(void **state)
{
    mode_t old = umask(0);
    const char *dir = hosted_create("private", 100000);
    const char *const words[] = {"set", "private", "lr=1e-3", NULL};
    pid_t pid;

    (void)state;
    hosted_before_exec = generous_umask;
    pid = hosted_start_paused(dir);
    assert_int_equal(hosted_wait_exit(hosted_launch(t_path("set.txt"), words)), CLI_OK);
    assert_true(hosted_command(dir, "checkpoint"));
    t_wait(hosted_status_of(dir).checkpoint_step == 0, 30);
    assert_true(file_exists(path_in(dir, "control.sock")));
    assert_int_equal(nftw(dir, check_mode, 20, FTW_PHYS), 0);
    kill(pid, SIGTERM);
    assert_int_equal(hosted_wait_exit(pid), CLI_STOPPED);
    hosted_before_exec = NULL;
    umask(old);
}

static void set_on_the_command_line(void **state)
{
    const char *dir = hosted_create("cli", 100000);
    pid_t pid = hosted_start_paused(dir);
    const char *const later[] = {"set", "cli", "optim.lr=1e-3", "at=50", "--json", NULL};

    (void)state;
    assert_int_equal(hosted_lathe("set", "cli", "max_steps=2k"), CLI_OK);
    assert_true(hosted_output_has("out.txt", "run cli: max_steps 100,000 -> 2,000, planned anew"));
    assert_int_equal(hosted_wait_exit(hosted_launch(t_path("out.txt"), later)), CLI_OK);
    assert_true(hosted_output_has("out.txt", "\"at\": 50"));
    t_wait(hosted_status_of(dir).total_steps == 2000, 10);
    assert_int_equal(hosted_lathe("set", "cli", "lr=x"), CLI_USAGE);
    assert_int_equal(hosted_lathe("set", "cli", "at=7"), CLI_USAGE);
    assert_true(hosted_output_has("out.txt", "what is to be set?"));
    assert_int_equal(hosted_lathe("set", "cli", "max_step=7"), CLI_USAGE);
    assert_true(hosted_output_has("out.txt", "did you mean 'max_steps'?"));
    assert_int_equal(hosted_lathe("set", "cli", "train.seed=7"), CLI_USAGE);
    assert_int_equal(hosted_lathe("set", "cli", "lr=0"), CLI_INPUT);
    assert_true(hosted_output_has("out.txt", "run 'cli' refused: lr is 0"));
    assert_int_equal(hosted_lathe("watch", "cli", "--once"), CLI_OK);
    assert_true(hosted_output_has("out.txt", "lr 0.003 -> 0.001 from step 50 on, by "));
    assert_int_equal(hosted_lathe("stop", "cli", NULL), CLI_OK);
    assert_int_equal(hosted_wait_exit(pid), CLI_STOPPED);
    assert_int_equal(hosted_lathe("set", "cli", "lr=1"), CLI_INPUT);
    assert_true(hosted_output_has("out.txt", "it is stopped; resume it first"));
    assert_int_equal(hosted_lathe("watch", "cli", NULL), CLI_OK);
    assert_true(hosted_output_has("out.txt", "command: pause asked by "));
    assert_true(hosted_output_has("out.txt", "command: stop asked by "));
    assert_true(hosted_output_has("out.txt", "set: max_steps 100,000 -> 2,000"));
}

static int set_up(void **state)
{
    (void)state;
    hosted_set_up();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_under_fire_does_not_disturb_the_run),
        cmocka_unit_test(a_run_is_private_to_its_user),
        cmocka_unit_test(set_on_the_command_line),
    };

    host_set_program("/proc/self/exe");
    if (argc > 1)
        return cli_main(argc, argv);
    return cmocka_run_group_tests(tests, set_up, NULL);
}
