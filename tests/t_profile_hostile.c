// Profiles from people who mean harm, and from broken disks: always an error in words, soon.
#include "tests/t.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/profile.h"
#include "engine/rng.h"

static void assert_printable(const struct problem *p)
{
    const char *texts[] = {p->err.text, p->err.file, p->path, p->source};

    for (int i = 0; i < 4; i++)
        for (const char *s = texts[i]; *s; s++)
            if ((unsigned char)*s < ' ' || *s == 0x7f)
                fail_msg("control character %d in '%s'", *s, texts[i]);
}

static bool has_problem(const struct problems *p, const char *part)
{
    for (int i = 0; i < p->n; i++)
        if (p->v[i].severity == SEV_ERROR && strstr(p->v[i].err.text, part))
            return true;
    return false;
}

static void print_all(const struct problems *p)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    problems_print(p, f);
    fclose(f);
    free(text);
}

// Reads len bytes, which must fail with `part` (NULL: may also succeed), within two seconds.
static void feed(const char *text, size_t len, const char *part)
{
    struct spec s;
    struct problems p = {0};
    double start = t_now();
    int rc = profile_parse("h.yaml", text, len, NULL, 0, &s, &p);

    if (t_now() - start > 2)
        fail_msg("took %.1f s for %.60s", t_now() - start, text);
    assert_true(p.n <= PROFILE_MAX_PROBLEMS);
    assert_true((rc < 0) == (p.errors > 0));
    for (int i = 0; i < p.n; i++)
        assert_printable(&p.v[i]);
    print_all(&p);
    if (part && !has_problem(&p, part))
        fail_msg("expected '%s', got '%s'", part, p.n ? p.v[0].err.text : "nothing");
    problems_release(&p);
}

static void feed_text(const char *text, const char *part)
{
    feed(text, strlen(text), part);
}

static void feed_buf(struct buf *b, const char *part)
{
    feed(b->data, b->len, part);
    buf_release(b);
}

// `piece` n times between two ends.
static void feed_repeated(const char *before, const char *piece, int n, const char *after,
                          const char *part)
{
    struct buf b = {0};

    buf_str(&b, before);
    for (int i = 0; i < n; i++)
        buf_str(&b, piece);
    buf_str(&b, after);
    feed_buf(&b, part);
}

static void alias_bombs_are_refused(void **state)
{
    struct buf b = {0};

    (void)state;
    buf_str(&b, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 20; i++) {
        buf_fmt(&b, "a%d: &a%d [", i, i);
        for (int j = 0; j < 10; j++)
            buf_fmt(&b, "%s*a%d", j ? ", " : "", i - 1);
        buf_str(&b, "]\n");
    }
    feed_buf(&b, "aliases expand to too many values");
    // depth instead of breadth
    buf_str(&b, "a0: &a0 [x]\n");
    for (int i = 1; i < 50; i++)
        buf_fmt(&b, "a%d: &a%d [*a%d]\n", i, i, i - 1);
    feed_buf(&b, "nested too deeply (through an alias)");
    feed_text("a: &a {b: *a}\n", "alias inside the value");
    feed_repeated("a:\n", "- &x 1\n", 5000, "", "too many anchors");
    feed_repeated("a: &x 1\nb: [", "*x, ", 200000, "]", "too many values");
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    feed_repeated("a: ", "[", 10000, "", "nested too deeply");
    feed_repeated("", "{a: ", 10000, "", "nested too deeply");
    feed_repeated("", "- ", 10000, "x", "nested too deeply");
    feed_repeated("", "? ", 10000, "x", NULL);
    feed_repeated("", "[", 500000, "", "nested too deeply");
}

static void bulk_is_refused(void **state)
{
    struct buf b = {0};

    (void)state;
    feed_repeated("a: [", "1, ", 150000, "]", "too many values");
    feed_repeated("", "a", 1000000, "", NULL);
    feed_repeated("a: \"", "x", 1000000, "\"", NULL);
    feed_repeated("name: \"", "x", 1000000, "\"", "bytes, at most 63");
    feed_repeated("", "\n", 1000000, "", "empty");
    feed_repeated("", "# c\n", 200000, "", "empty");
    feed_repeated("", "a: b: ", 100000, "", NULL);
    feed_repeated("model: {ffn_width: [", "1 x256, ", 10000, "]}", "more than 256 values");
    for (int i = 0; i < 5000; i++)
        buf_fmt(&b, "key%d: 1\n", i);
    feed_buf(&b, "too many keys");
    for (int i = 0; i < 900; i++)
        buf_fmt(&b, "key%d: 1\n", i);
    feed_buf(&b, "more than 99 problems");
    feed_repeated("", "k", PROFILE_MAX_BYTES + 1, "", "at most 1048576 are read");
}

static void bytes_that_are_no_text_are_refused(void **state)
{
    static const char nul[] = "model:\n  d_model: 1\0002\n";

    (void)state;
    feed(nul, sizeof nul - 1, "NUL byte");
    feed("\0", 1, "NUL byte");
    feed("", 0, "empty");
    feed_text("name: \"a\\0b\"\n", "NUL character");
    feed_text("\xff\xfe m\n", "UTF-16");
    feed_text("name: \xc0\xaf\n", "UTF-8");
    feed_text("name: \xed\xa0\x80\n", "UTF-8");
    feed_text("name: \xf5\x80\x80\x80\n", "UTF-8");
    feed_text("name: \xe4\xb8", "UTF-8");
    feed_text("name: \xc2\x9b\n", "control character");
    feed_text("name: x\rtrain: 1\n", "carriage return");
    feed_text("name: \xe2\x80\xa8\n", "line separator");
    feed_text("name: \xef\xbf\xbf\n", "not a character");
    feed_text("\"\\e]0;owned\\a\": 1\n", "unknown key ' ]0;owned '");
    feed_text("extends: \"\\e[2J.yaml\"\n", "cannot open ' [2J.yaml'");
    feed_text("extends: \"\\n\\x9b2J.yaml\"\n", "cannot open '   2J.yaml'");
    feed_text("model: {\"\\x9b2J\": 1}\n", "unknown key ' 2J'");
}

static void numbers_at_the_edge_are_refused(void **state)
{
    static const char *const values[] = {"9223372036854775808",
                                         "-9223372036854775808",
                                         "1e308",
                                         "1e999",
                                         "nan",
                                         ".inf",
                                         "-.inf",
                                         "0x7fffffff",
                                         "1e-400",
                                         "99999999999999999999999999999999999999",
                                         "2147483648",
                                         "-2147483649",
                                         "9007199254740993B",
                                         "--1",
                                         "+",
                                         ".",
                                         "-",
                                         "1__0",
                                         "1_",
                                         "0b1",
                                         "1e",
                                         "1tok",
                                         "%",
                                         "1%",
                                         "\"\""};

    (void)state;
    for (int i = 0; i < spec_key_count; i++)
        for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
            const char *set[4] = {"model.d_model=64", "model.vocab=9", "model.n_layers=1", NULL};
            static const char text[] = "model: {ffn_width: 256, n_heads: 1}\n";
            struct spec s;
            struct problems p = {0};
            char *last = xasprintf("%s=%s", spec_keys[i].path, values[j]);

            set[3] = last;
            if (profile_parse("h", text, strlen(text), set, 4, &s, &p) == 0)
                assert_int_equal(profile_validate(&s, &p), 0);
            problems_release(&p);
            free(last);
        }
}

static void expect_load(const char *path, const char *part)
{
    struct spec s;
    struct problems p = {0};
    double start = t_now();

    assert_int_equal(profile_load(path, NULL, 0, &s, &p), -1);
    if (!has_problem(&p, part))
        fail_msg("expected '%s', got '%s'", part, p.v[0].err.text);
    assert_true(t_now() - start < 2);
    problems_release(&p);
}

static void files_that_are_no_profiles_are_refused(void **state)
{
    int fd = open(t_path("huge.yaml"), O_CREAT | O_WRONLY, 0600);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 100 << 20), 0);
    close(fd);
    expect_load(t_path("huge.yaml"), "has 104857600 bytes, at most 1048576 are read");
    expect_load("/dev/zero", "File too large");
    expect_load("/dev/null", "empty");
    t_write(t_path("big_base.yaml"), "extends: huge.yaml\n");
    expect_load(t_path("big_base.yaml"), "at most 1048576 are read");
    // reading a pipe that nobody writes to would never end
    assert_int_equal(mkfifo(t_path("pipe"), 0600), 0);
    t_write(t_path("piped.yaml"), "extends: pipe\n");
    expect_load(t_path("piped.yaml"), "not a plain file");
    t_write(t_path("wide0.yaml"), "name: x\n");
    for (int i = 1; i < 8; i++) {
        char name[32], text[128];

        snprintf(name, sizeof name, "wide%d.yaml", i);
        snprintf(text, sizeof text, "extends: [wide%d.yaml, wide%d.yaml, wide%d.yaml]\n", i - 1,
                 i - 1, i - 1);
        t_write(t_path(name), text);
    }
    expect_load(t_path("wide7.yaml"), "more than 64 files");
}

// ---- mutations ----------------------------------------------------------------------------------

static uint64_t key;
static uint64_t drawn;

static size_t draw(size_t n)
{
    return n ? (size_t)(rng_u64(key, drawn++) % n) : 0;
}

static const char *const pieces[] = {"[",
                                     "]",
                                     "{",
                                     "}",
                                     ":",
                                     ",",
                                     "\n",
                                     "  ",
                                     "- ",
                                     "&a ",
                                     "*a",
                                     "\t",
                                     "#",
                                     "'",
                                     "\"",
                                     "\\",
                                     "|\n",
                                     ">\n",
                                     "? ",
                                     "!!x ",
                                     "<<: *a",
                                     "%",
                                     "---",
                                     "...",
                                     "\r\n",
                                     "~",
                                     "x6",
                                     "0",
                                     "-",
                                     "1e9",
                                     "true",
                                     "\xc3\xa9",
                                     "\xff",
                                     "180M",
                                     "{shape: crown, points: [1, 2, 3]}",
                                     "{ratio: 2}",
                                     "extends: h.yaml\n",
                                     "model:\n",
                                     "  n_layers: 3\n",
                                     "none",
                                     "  # c\n",
                                     "\n\n",
                                     " ",
                                     "[256 x8]"};

static void mutate(struct buf *b)
{
    struct buf out = {0};
    size_t at = draw(b->len + 1), cut = draw(2) ? draw(4) : draw(30) ? 0 : draw(60);

    if (at + cut > b->len)
        cut = b->len - at;
    buf_add(&out, b->data, at);
    if (at < b->len && b->data[at] >= '0' && b->data[at] <= '9') {
        buf_fmt(&out, "%zu", draw(10));
        cut = 1;
    } else if (draw(4) == 0) {
        char c = (char)draw(256);

        buf_add(&out, &c, 1);
    } else if (draw(4)) {
        buf_str(&out, pieces[draw(sizeof pieces / sizeof pieces[0])]);
    } else { // a piece of itself
        size_t from = draw(b->len + 1), n = draw(40);

        buf_add(&out, b->data + from, n < b->len - from ? n : b->len - from);
    }
    buf_add(&out, b->data + at + cut, b->len - at - cut);
    buf_release(b);
    *b = out;
}

static void try_saving(const struct buf *b, const struct spec *s)
{
    const char *path = t_path("mutant.yaml");
    struct spec edited = *s, back;
    struct problems p = {0};
    struct err err = ERR_INIT;
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fwrite(b->data, 1, b->len, f);
    fclose(f);
    edited.model.lane[LANE_FFN][0] += edited.model.ffn_step;
    if (profile_validate(&edited, &p) == 0 && profile_load(path, NULL, 0, &back, &p) == 0) {
        snprintf(edited.name, sizeof edited.name, "%s", back.name);
        if (profile_save(path, &edited, &err) != 0)
            fail_msg("%s\nfor\n%s", err.text, b->data);
    }
    problems_release(&p);
}

// Whatever was accepted is valid and survives being written.
static void check_accepted(const struct buf *b, const struct spec *s)
{
    struct problems p = {0};
    struct spec back;
    char *text = profile_to_yaml(s, NULL);

    assert_int_equal(profile_validate(s, &p), 0);
    if (profile_parse("back.yaml", text, strlen(text), NULL, 0, &back, &p) != 0 ||
        !spec_equal(s, &back))
        fail_msg("%s\nfrom\n%s", text, b->data);
    problems_release(&p);
    free(text);
}

static void mutated_profiles_never_break_the_reader(void **state)
{
    static const char other[] =
        "# \xe4\xb8\xad\nname: other\nmodel:\n  d_model: &d 512\n"
        "  n_layers: 6\n  ffn_width: [1024 x2, 2048 x4]\n"
        "  n_heads:\n    - 8\n    - 8 x5 # c\n  n_kv_heads: 4\n"
        "  frame: endpoint_max\n  vocab: 50_257\n  vocab_pad: 128\n"
        "train: {seq_len: 1KiB, micro_batch_size: 8192tok, max_steps: 1e4}\n"
        "optim:\n  betas: [0.9, 0.99]\n  lr: 6e-4\n";
    int accepted = 0;

    (void)state;
    key = rng_key(7, "mutations");
    drawn = 0;
    for (int i = 0; i < 4000; i++) {
        struct buf b = {0};
        struct spec s;
        struct problems p = {0};

        buf_str(&b, i % 2 ? other : profile_default_yaml);
        for (size_t n = 1 + draw(i % 8 ? 2 : 30); n > 0; n--)
            mutate(&b);
        feed(b.data, b.len, NULL);
        if (profile_parse("h.yaml", b.data, b.len, NULL, 0, &s, &p) == 0) {
            accepted++;
            check_accepted(&b, &s);
            if (accepted % 8 == 0)
                try_saving(&b, &s);
        }
        problems_release(&p);
        buf_release(&b);
    }
    // the mutations are mild enough to reach all stages
    if (accepted < 200)
        fail_msg("only %d accepted", accepted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alias_bombs_are_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(bulk_is_refused),
        cmocka_unit_test(bytes_that_are_no_text_are_refused),
        cmocka_unit_test(numbers_at_the_edge_are_refused),
        cmocka_unit_test(files_that_are_no_profiles_are_refused),
        cmocka_unit_test(mutated_profiles_never_break_the_reader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
