// What was drawn and not saved: kept outside the program, and back after it was killed or hung up on.
#include "tests/t.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/profile.h"
#include "tests/pty.h"

static const char profile[] = "# mine\n"
                              "model:\n"
                              "  d_model: 64\n"
                              "  n_layers: 4\n"
                              "  head_dim: 16\n"
                              "  ffn_width: [64, 128, 128, 64]\n"
                              "  n_heads: 4\n"
                              "  ffn_step: 64\n"
                              "  vocab: 257\n";

static char home[600];

static const char *program(void)
{
    const char *path = getenv("LATHE");

    return path ? path : "./lathe";
}

static struct pty *open_on(const char *file)
{
    const char *argv[] = {program(), file, NULL};
    const char *env[] = {home, NULL};
    struct pty *p = pty_start(argv, env, 24, 80);

    pty_wait(p, "[1 Design]");
    return p;
}

// Files kept now; -1 = no directory.
static int kept(void)
{
    char dir[700];
    struct dirent *e;
    int n = 0;
    DIR *d;

    snprintf(dir, sizeof dir, "%s/lathe/unsaved", home + strlen("XDG_STATE_HOME="));
    d = opendir(dir);
    if (!d)
        return -1;
    while ((e = readdir(d)))
        n += strstr(e->d_name, ".yaml") != NULL && !strstr(e->d_name, ".tmp");
    closedir(d);
    return n;
}

static int setup(void **state)
{
    static int n;
    char name[32];

    (void)state;
    snprintf(name, sizeof name, "home-%d", ++n);
    snprintf(home, sizeof home, "XDG_STATE_HOME=%s", t_path(name));
    t_write(t_path("mine.yaml"), profile);
    return 0;
}

static void expect_file(const char *want)
{
    struct buf text = {0};

    assert_int_equal(file_read(t_path("mine.yaml"), 1 << 16, &text, NULL), 0);
    assert_string_equal(text.data, want);
    buf_release(&text);
}

static void end_badly(struct pty *p, int how)
{
    if (how == 0) {
        kill(pty_pid(p), SIGKILL);
        pty_wait_exit(p);
    } else if (how == 1) {
        kill(pty_pid(p), SIGHUP);
        pty_wait_exit(p);
    } else {
        pty_hang_up(p);
        t_wait(kill(pty_pid(p), 0) < 0 || (waitpid(pty_pid(p), NULL, WNOHANG) != 0), 10);
    }
    pty_free(p);
}

static void a_killed_workbench_brings_its_changes_back(void **state)
{
    struct pty *p;

    for (int how = 0; how < 3; how++) {
        setup(state);
        p = open_on(t_path("mine.yaml"));
        pty_send(p, "kk"); // layer 0: 64 -> 192
        pty_wait(p, "[+]");
        t_wait((pty_pump(p, 10), kept() == 1), 10);
        end_badly(p, how);
        expect_file(profile);

        p = open_on(NULL);
        pty_wait(p, "1 design was not saved");
        pty_wait(p, "2/2  mine.yaml [+]");
        pty_wait(p, "197,312"); // parameters
        assert_int_equal(kept(), 1); // its own now
        pty_send(p, "u");
        pty_wait(p, "L0 ffn 64");
        pty_send(p, "\022"); // Ctrl-R
        pty_wait(p, "L0 ffn 192");
        pty_send(p, "w");
        pty_wait(p, "saved ");
        t_wait((pty_pump(p, 10), kept() == 0), 10);
        pty_send(p, "q");
        assert_int_equal(pty_wait_exit(p), 0);
        pty_free(p);
        expect_file("# mine\n"
                    "model:\n"
                    "  d_model: 64\n"
                    "  n_layers: 4\n"
                    "  head_dim: 16\n"
                    "  ffn_width: [192, 128, 128, 64]\n"
                    "  n_heads: 4\n"
                    "  ffn_step: 64\n"
                    "  vocab: 257\n");
    }
}

// Neither hands that rest nor a second have to pass before a signal.
static void a_signal_right_after_a_key_loses_nothing(void **state)
{
    static const int signals[] = {SIGHUP, SIGTERM};

    for (int i = 0; i < 2; i++) {
        struct pty *p;

        setup(state);
        p = open_on(t_path("mine.yaml"));
        pty_send(p, "k");
        pty_wait(p, "[+]");
        kill(pty_pid(p), signals[i]);
        assert_int_equal(pty_wait_exit(p), 128 + signals[i]);
        assert_false(pty_alt_screen(p));
        pty_free(p);
        assert_int_equal(kept(), 1);
    }
}

static void keys_without_end_are_kept_too(void **state)
{
    struct pty *p = open_on(t_path("mine.yaml"));
    double end = t_now() + 10;

    (void)state;
    while (kept() < 1 && t_now() < end) { // the next key as soon as the picture has come
        pty_send(p, "k");
        pty_pump(p, 5);
    }
    assert_int_equal(kept(), 1);
    pty_free(p);
}

static void leave_changes_behind(void)
{
    struct pty *p = open_on(t_path("mine.yaml"));

    pty_send(p, "kk");
    t_wait((pty_pump(p, 10), kept() == 1), 10);
    end_badly(p, 0);
}

static void changes_of_a_file_that_others_changed_are_saved_on_request(void **state)
{
    struct buf text = {0};
    struct pty *p;

    (void)state;
    leave_changes_behind();
    buf_str(&text, profile);
    buf_str(&text, "# theirs\n");
    t_write(t_path("mine.yaml"), text.data);
    p = open_on(NULL);
    pty_wait(p, "1 design was not saved");
    pty_send(p, "w");
    pty_wait(p, "Somebody else changed");
    pty_send(p, "n");
    pty_wait_gone(p, "Somebody else changed");
    expect_file(text.data);
    pty_free(p);
    buf_release(&text);
}

static void changes_of_a_file_that_is_broken_or_gone_come_back_too(void **state)
{
    for (int gone = 0; gone < 2; gone++) {
        struct pty *p;

        setup(state);
        leave_changes_behind();
        if (gone)
            unlink(t_path("mine.yaml"));
        else
            t_write(t_path("mine.yaml"), "model: [broken\n");
        p = open_on(NULL);
        pty_wait(p, "1 design was not saved");
        pty_wait(p, "197,312");
        pty_send(p, "w");
        pty_wait(p, "save as:"); // its file is not what it was
        pty_free(p);
    }
}

static void a_kept_file_that_cannot_be_read_is_told(void **state)
{
    char dir[700], name[900];
    struct pty *p;

    (void)state;
    leave_changes_behind();
    snprintf(dir, sizeof dir, "%s/lathe/unsaved", home + strlen("XDG_STATE_HOME="));
    snprintf(name, sizeof name, "%s/elsewhere-1-2-3.yaml", dir);
    t_write(name, "model:\n  d_mo");
    p = open_on(NULL);
    pty_wait(p, "1 file of changes that were not saved cannot be");
    pty_wait(p, "2/2  mine.yaml [+]");
    pty_free(p);
    assert_true(file_exists(name));
}

static void what_is_thrown_away_on_purpose_stays_away(void **state)
{
    struct pty *p = open_on(t_path("mine.yaml"));

    (void)state;
    pty_send(p, "k");
    t_wait((pty_pump(p, 10), kept() == 1), 10);
    pty_send(p, "u"); // as it was opened: nothing to keep
    t_wait((pty_pump(p, 10), kept() == 0), 10);
    pty_send(p, "k");
    t_wait((pty_pump(p, 10), kept() == 1), 10);
    pty_send(p, "q");
    pty_wait(p, "Leave without saving?");
    pty_send(p, "y");
    assert_int_equal(pty_wait_exit(p), 0);
    pty_free(p);
    assert_int_equal(kept(), 0);
}

static void a_live_workbench_keeps_what_is_its_own(void **state)
{
    struct pty *a = open_on(t_path("mine.yaml")), *b;

    (void)state;
    pty_send(a, "k");
    t_wait((pty_pump(a, 10), kept() == 1), 10);
    b = open_on(t_path("mine.yaml"));
    pty_wait(b, "move with h l");
    assert_int_equal(kept(), 1);
    pty_free(b);
    pty_free(a);
}

static void without_a_place_to_keep_it_says_so(void **state)
{
    const char *argv[] = {program(), t_path("mine.yaml"), NULL};
    const char *env[] = {"XDG_STATE_HOME=/proc/nowhere", NULL};
    struct pty *p = pty_start(argv, env, 24, 80);

    (void)state;
    pty_wait(p, "[1 Design]");
    pty_send(p, "k");
    pty_wait(p, "are not kept outside this program");
    pty_send(p, "k");
    pty_wait_gone(p, "are not kept outside");
    pty_send(p, "q");
    pty_wait(p, "Leave without saving?");
    pty_send(p, "y");
    assert_int_equal(pty_wait_exit(p), 0);
    pty_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_workbench_brings_its_changes_back),
        cmocka_unit_test(a_signal_right_after_a_key_loses_nothing),
        cmocka_unit_test_setup(keys_without_end_are_kept_too, setup),
        cmocka_unit_test_setup(changes_of_a_file_that_others_changed_are_saved_on_request, setup),
        cmocka_unit_test(changes_of_a_file_that_is_broken_or_gone_come_back_too),
        cmocka_unit_test_setup(a_kept_file_that_cannot_be_read_is_told, setup),
        cmocka_unit_test_setup(what_is_thrown_away_on_purpose_stays_away, setup),
        cmocka_unit_test_setup(a_live_workbench_keeps_what_is_its_own, setup),
        cmocka_unit_test_setup(without_a_place_to_keep_it_says_so, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
