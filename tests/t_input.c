#include "tests/t.h"

#include "tui/input.h"
#include "tui/keys.h"

static struct input in;

static void start(void)
{
    input_release(&in);
    memset(&in, 0, sizeof in);
}

// All keys of `bytes`, read in pieces of `piece` bytes.
static int keys_of(const char *bytes, size_t n, size_t piece, int *keys, int max)
{
    int found = 0, key;

    start();
    for (size_t at = 0; at < n; at += piece) {
        input_feed(&in, bytes + at, n - at < piece ? n - at : piece);
        while ((key = input_key(&in, 0)) && found < max)
            keys[found++] = key;
    }
    while ((key = input_key(&in, INPUT_STALE_MS)) && found < max)
        keys[found++] = key;
    return found;
}

static void expect(const char *bytes, int n, const int *want)
{
    int keys[32];

    for (size_t piece = 1; piece <= 7; piece++) { // however the line splits it
        assert_int_equal(keys_of(bytes, strlen(bytes), piece, keys, 32), n);
        for (int i = 0; i < n; i++)
            assert_int_equal(keys[i], want[i]);
    }
}

static void one(const char *bytes, int key)
{
    expect(bytes, 1, &key);
}

static void keys_of_all_terminals_are_known(void **state)
{
    (void)state;
    one("a", 'a');
    one("\r", K_ENTER);
    one("\n", K_ENTER);
    one("\t", K_TAB);
    one("\x7f", K_BACKSPACE);
    one("\b", K_BACKSPACE);
    one("\x12", K_CTRL('R'));
    one("\xc3\xa4", 0xe4);
    one("\xf0\x9f\x98\x80", 0x1f600);
    one("\033[A", K_UP); // both cursor modes
    one("\033OA", K_UP);
    one("\033[H", K_HOME);
    one("\033[1~", K_HOME); // screen, linux
    one("\033[7~", K_HOME); // rxvt
    one("\033[F", K_END);
    one("\033[5~", K_PGUP);
    one("\033[1;5C", K_RIGHT); // with a modifier
    one("\033[3;2~", K_DELETE);
    one("\033[Z", K_BACKTAB);
    one("\033OP", K_F1);
    one("\033[11~", K_F1);
    one("\033[[A", K_F1); // Linux console
    one("\033[1;2P", K_F1);
    one("\033[21~", K_F10);
    one("\033OM", K_ENTER); // keypad
}

static void escape_alone_is_escape_after_a_while(void **state)
{
    (void)state;
    start();
    input_feed(&in, "\033", 1);
    assert_int_equal(input_key(&in, 0), 0);
    assert_int_equal(input_wait_ms(&in), INPUT_ESC_MS);
    assert_int_equal(input_key(&in, INPUT_ESC_MS), K_ESC);
    assert_int_equal(input_wait_ms(&in), -1);
}

static void escape_then_digit_is_a_function_key(void **state)
{
    (void)state;
    start();
    input_feed(&in, "\0333\0330", 4);
    assert_int_equal(input_key(&in, 0), K_F3);
    assert_int_equal(input_key(&in, 0), K_ESC); // no selection, then the first layer
    assert_int_equal(input_key(&in, 0), '0');
}

static void what_is_no_key_is_swallowed_whole(void **state)
{
    static const char *const sequences[] = {
        "\033[<35;210;44M", // motion without a button
        "\033[I",
        "\033[O",
        "\033[?62;22c",
        "\033[?2026;2$y",
        "\033[24;80R",
        "\033[M !!",
        "\033]11;rgb:00/00/00\a",
        "\033P1+r436f=1\033\\",
        "\033_q\033\\",
        "\033[>0;276;0c",
        "\033[1;2;3;4;5q",
        "\033[99~",
    };

    (void)state;
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        char bytes[128];
        int want[] = {'x', 'y'};

        snprintf(bytes, sizeof bytes, "x%sy", sequences[i]);
        // one byte at a time a lone ESC may be split off by age, but not by the split itself
        expect(bytes, 2, want);
    }
}

static void a_paste_is_one_event(void **state)
{
    static const char bytes[] = "a\033[200~qq D\033[A\nv\033[201~b";
    int want[] = {'a', K_PASTE, 'b'};

    (void)state;
    expect(bytes, 3, want);
    assert_string_equal(in.paste.data, "qq D\033[A\nv");
}

static int next_after(const char *text, int age_ms, bool into_line)
{
    input_feed_read(&in, text, strlen(text), age_ms, into_line);
    return input_key(&in, 0);
}

static void text_that_nobody_typed_is_a_paste(void **state)
{
    static const char text[] = "Where is the quick brown fox?\rqy";

    (void)state;
    start();
    assert_int_equal(next_after(text, 1000, false), K_PASTE);
    assert_string_equal(in.paste.data, text);
    assert_int_equal(input_key(&in, 0), 0);
    assert_int_equal(next_after("qy", 5, false), K_PASTE); // its end, in a read of its own
    assert_int_equal(next_after("q", 1000, false), 'q');
    start();
    assert_int_equal(next_after(text, 1000, true), K_PASTE); // else its second line were keys
    start();
    assert_int_equal(next_after("/some/directory/profile-7.yaml\r", 1000, true), '/');
}

static void keys_in_one_read_stay_keys(void **state)
{
    static const char *const typed[] = {"lkklkkw", "jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj",
                                        "lkhjlkhjlkhjlkhjlkhjlkhjlkhjlkhj",
                                        "\033[A\033[A\033[A\033[B\033[B\033[C\033[C\033[D\033[D"};

    (void)state;
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
        int key;

        start();
        key = next_after(typed[i], 1000, false);
        assert_int_not_equal(key, K_PASTE);
        while ((key = input_key(&in, 0)))
            assert_int_not_equal(key, K_PASTE);
        assert_int_equal(in.raw.len, 0);
    }
}

static void an_unfinished_sequence_is_dropped_in_the_end(void **state)
{
    (void)state;
    start();
    input_feed(&in, "\033[<0;1", 6);
    assert_int_equal(input_key(&in, INPUT_ESC_MS), 0);
    assert_int_equal(input_key(&in, INPUT_STALE_MS), 0);
    assert_int_equal(input_wait_ms(&in), -1);
    input_feed(&in, "\033[200~never ends", 16);
    assert_int_equal(input_key(&in, INPUT_STALE_MS), 0);
    input_feed(&in, "k", 1);
    assert_int_equal(input_key(&in, 0), 'k');
}

static void random_bytes_never_hang_or_give_strange_keys(void **state)
{
    uint32_t seed = 1;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        char bytes[200];
        int keys[400];

        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 1664525u + 1013904223u;
            bytes[i] =
                (seed >> 24) % 5 == 0 ? "\033[<;~OM200"[(seed >> 16) % 10] : (char)(seed >> 24);
        }
        int n = keys_of(bytes, sizeof bytes, 1 + round % 9, keys, 400);
        for (int i = 0; i < n; i++)
            assert_in_range(keys[i], 1, K_MOUSE);
        assert_int_equal(in.raw.len, 0);
    }
}

static void mouse_reports_say_what_and_where(void **state)
{
    static const struct {
        const char *bytes;
        struct mouse want;
    } cases[] = {
        {"\033[<0;1;1M", {.kind = MOUSE_PRESS, .button = MOUSE_LEFT, .row = 0, .col = 0}},
        {"\033[<0;200;60m", {.kind = MOUSE_RELEASE, .button = MOUSE_LEFT, .row = 59, .col = 199}},
        {"\033[<34;12;7M", {.kind = MOUSE_DRAG, .button = MOUSE_RIGHT, .row = 6, .col = 11}},
        {"\033[<36;12;7M", {.kind = MOUSE_DRAG, .shift = true, .row = 6, .col = 11}},
        {"\033[<64;3;4M", {.kind = MOUSE_WHEEL, .wheel = 1, .row = 3, .col = 2}},
        {"\033[<65;3;4M", {.kind = MOUSE_WHEEL, .wheel = -1, .row = 3, .col = 2}},
    };
    static const char *const strange[] = {
        "\033[<0;0;1M", "\033[<35;3;4M", "\033[<66;3;4M", "\033[<0;1M", "\033[<M",
        "\033[<0;99999;1M", "\033[<0;1;1;1M", "\033[<128;1;1M", "\033[M !!",
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct mouse *want = &cases[i].want;

        expect(cases[i].bytes, 1, (const int[]){K_MOUSE});
        assert_int_equal(in.mouse.kind, want->kind);
        assert_int_equal(in.mouse.button, want->button);
        assert_int_equal(in.mouse.wheel, want->wheel);
        assert_int_equal(in.mouse.shift, want->shift);
        assert_int_equal(in.mouse.row, want->row);
        assert_int_equal(in.mouse.col, want->col);
    }
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        expect(strange[i], 0, NULL);
}

static int release(void **state)
{
    (void)state;
    input_release(&in);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_all_terminals_are_known),
        cmocka_unit_test(escape_alone_is_escape_after_a_while),
        cmocka_unit_test(escape_then_digit_is_a_function_key),
        cmocka_unit_test(what_is_no_key_is_swallowed_whole),
        cmocka_unit_test(mouse_reports_say_what_and_where),
        cmocka_unit_test(a_paste_is_one_event),
        cmocka_unit_test(text_that_nobody_typed_is_a_paste),
        cmocka_unit_test(keys_in_one_read_stay_keys),
        cmocka_unit_test(an_unfinished_sequence_is_dropped_in_the_end),
        cmocka_unit_test(random_bytes_never_hang_or_give_strange_keys),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
