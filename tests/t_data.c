// Text to token files to batches, and the `lathe data` commands.
#include "tests/t.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>
#include <zlib.h>

#include "engine/audit.h"
#include "engine/buf.h"
#include "engine/cli.h"
#include "engine/corpus.h"
#include "engine/file.h"
#include "engine/rng.h"
#include "engine/shard.h"

static const char gcide_path[] = "/usr/share/dictd/gcide.dict.dz";

// ---- helpers ------------------------------------------------------------------------------------

static void write_gz(const char *path, const char *text, size_t n)
{
    gzFile gz = gzopen(path, "wb");

    assert_non_null(gz);
    assert_int_equal(gzwrite(gz, text, (unsigned)n), n);
    assert_int_equal(gzclose(gz), Z_OK);
}

// A text of n paragraphs "document <i> <noise>".
static char *many_documents(int n)
{
    struct buf b = {0};

    for (int i = 0; i < n; i++)
        buf_fmt(&b, "%sdocument %d %llx\n  and more", i ? "\n\n" : "", i,
                (unsigned long long)rng_u64(3, (uint64_t)i));
    return buf_detach(&b);
}

static void expect_docs(const char *text, enum corpus_cut cut, const char *separator,
                        const char *const *docs, int64_t n, int64_t entries)
{
    struct corpus_doc *d;
    int64_t got_entries, got = corpus_split(text, strlen(text), cut, separator, &d, &got_entries);

    assert_int_equal(got, n);
    assert_int_equal(got_entries, entries);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(d[i].len, strlen(docs[i]));
        assert_memory_equal(text + d[i].start, docs[i], d[i].len);
    }
    free(d);
}

static int prepare(const struct corpus_options *o, struct corpus_report *r)
{
    struct err err = ERR_INIT;
    int rc = corpus_prepare(o, r, &err);

    if (rc < 0)
        fail_msg("%s", err.text);
    return rc;
}

static void prepare_refuses(const struct corpus_options *o, const char *expect)
{
    struct corpus_report r;
    struct err err = ERR_INIT;

    assert_int_equal(corpus_prepare(o, &r, &err), -1);
    if (!strstr(err.text, expect))
        fail_msg("expected '%s' in '%s'", expect, err.text);
}

static int count_files(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

// All documents of a byte shard as text, each ended by '\1'.
static char *shard_text(const char *path)
{
    struct err err = ERR_INIT;
    struct buf b = {0};
    struct shard s;

    assert_int_equal(shard_open(&s, path, TOKENS_AUTO, &err), 0);
    for (int64_t i = 0; i < s.n; i++) {
        char c = shard_token(&s, i) == CORPUS_EOT ? '\1' : (char)shard_token(&s, i);

        buf_add(&b, &c, 1);
    }
    shard_close(&s);
    return buf_detach(&b);
}

// ---- cutting ------------------------------------------------------------------------------------

static void entries_start_in_column_zero(void **state)
{
    const char *const docs[] = {"alpha\n   one\n\n   two", "beta", "gamma\n\n\tx"};

    (void)state;
    expect_docs("alpha\n   one\n\n   two\n\nbeta\n\n\ngamma\n\n\tx\n", CORPUS_CUT_ENTRIES, NULL,
                docs, 3, 3);
    // the text of the dictionary itself starts like this: an empty part comes first
    expect_docs("\n\nalpha\n   one\n\n   two\n\nbeta\n\ngamma\n\n\tx", CORPUS_CUT_ENTRIES, NULL,
                docs, 3, 4);
}

static void paragraphs_end_at_blank_lines(void **state)
{
    const char *const docs[] = {"one\ntwo", "  three", "four"};

    (void)state;
    expect_docs("one\ntwo\n\n  three\n \t\n\nfour", CORPUS_CUT_PARAGRAPHS, NULL, docs, 3, 3);
    expect_docs("\n\none\ntwo\n\n\n\n  three  \n\nfour\n\n", CORPUS_CUT_PARAGRAPHS, NULL, docs, 3,
                3);
    expect_docs("", CORPUS_CUT_PARAGRAPHS, NULL, docs, 0, 0);
    expect_docs(" \n\n\t\n", CORPUS_CUT_PARAGRAPHS, NULL, docs, 0, 0);
}

static void carriage_returns_do_not_hide_blank_lines(void **state)
{
    const char *const docs[] = {"one\r\ntwo", "three"};

    (void)state;
    expect_docs("one\r\ntwo\r\n\r\nthree\r\n", CORPUS_CUT_PARAGRAPHS, NULL, docs, 2, 2);
}

static void separator_cuts_where_it_stands(void **state)
{
    const char *const docs[] = {"a\n\nb", "c"};

    (void)state;
    expect_docs("a\n\nb<|endoftext|>\n<|endoftext|>c", CORPUS_CUT_SEPARATOR, "<|endoftext|>", docs,
                2, 3);
}

// ---- preparing ----------------------------------------------------------------------------------

static void every_document_is_on_one_side(void **state)
{
    enum { N = 1000 };
    char *text = many_documents(N), *train, *val, *out = xstrdup(t_path("sides"));
    const char *file = t_path("sides.txt");
    struct corpus_options o = {
        .files = &file, .n_files = 1, .out_dir = out, .seed = 1, .val_share = 0.2};
    struct corpus_report r;
    char head[64];

    (void)state;
    t_write(file, text);
    prepare(&o, &r);
    assert_int_equal(r.train.documents + r.val.documents, N);
    assert_int_equal(r.train.source_bytes + r.val.source_bytes, strlen(text) - 2 * (N - 1));
    assert_int_equal(r.train.tokens, r.train.source_bytes + r.train.documents);
    assert_true(r.val.documents > 150 && r.val.documents < 250); // 200 +- 4 sd
    train = shard_text(r.train.path);
    val = shard_text(r.val.path);
    for (int i = 0; i < N; i++) {
        snprintf(head, sizeof head, "document %d %llx\n  and more\1", i,
                 (unsigned long long)rng_u64(3, (uint64_t)i));
        assert_int_equal((strstr(train, head) != NULL) + (strstr(val, head) != NULL), 1);
        assert_int_equal(strstr(val, head) != NULL,
                         corpus_is_validation(head, strlen(head) - 1, 1, 0.2));
    }
    free(train);
    free(val);
    free(text);
    free(out);
}

static void same_seed_same_bytes_and_equal_documents_stay_together(void **state)
{
    const char *text = "same words\n\nother\n\nsame words\n\nthird\n\nsame words\n\nfourth";
    const char *file = t_path("equal.txt");
    char *a = xstrdup(t_path("ea")), *b = xstrdup(t_path("eb"));
    struct corpus_options o = {
        .files = &file, .n_files = 1, .out_dir = a, .seed = 4, .val_share = 0.3};
    struct corpus_report ra, rb;
    struct err err = ERR_INIT;
    struct buf x = {0}, y = {0};
    bool train;
    char *t;

    (void)state;
    t_write(file, text);
    prepare(&o, &ra);
    o.out_dir = b;
    prepare(&o, &rb);
    assert_int_equal(file_read(ra.train.path, 1 << 20, &x, &err), 0);
    assert_int_equal(file_read(rb.train.path, 1 << 20, &y, &err), 0);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    t = shard_text(ra.train.path);
    train = strstr(t, "same words") != NULL;
    free(t);
    t = shard_text(ra.val.path);
    assert_int_equal(strstr(t, "same words") == NULL, train);
    free(t);
    buf_release(&x);
    buf_release(&y);
    free(a);
    free(b);
}

static void documents_are_permuted_by_the_seed(void **state)
{
    char *text = many_documents(500), *a, *b, *out = xstrdup(t_path("order"));
    const char *file = t_path("order.txt");
    struct corpus_options o = {.files = &file, .n_files = 1, .out_dir = out, .seed = 1};
    struct corpus_report r;

    (void)state;
    t_write(file, text);
    prepare(&o, &r);
    assert_true(r.no_val && !file_exists(r.val.path));
    a = shard_text(r.train.path);
    o.seed = 2;
    o.force = true;
    prepare(&o, &r);
    b = shard_text(r.train.path);
    assert_int_equal(strlen(a), strlen(b));
    assert_string_not_equal(a, b);
    assert_string_not_equal(a, text);
    free(a);
    free(b);
    free(text);
    free(out);
}

static void gzip_text_and_several_files_are_read(void **state)
{
    const char *files[] = {t_path("one.txt.gz"), t_path("two.txt")};
    char *out = xstrdup(t_path("several")), *text;
    struct corpus_options o = {.files = files, .n_files = 2, .out_dir = out, .seed = 1};
    struct corpus_report r;

    (void)state;
    write_gz(files[0], "first\n\nsecond", 13);
    t_write(files[1], "third: not glued to second");
    prepare(&o, &r);
    assert_int_equal(r.train.documents, 3);
    text = shard_text(r.train.path);
    assert_non_null(strstr(text, "second\1"));
    assert_non_null(strstr(text, "third: not glued to second\1"));
    free(text);
    free(out);
}

static void intact_preparation_is_left_alone(void **state)
{
    const char *file = t_path("again.txt");
    char *out = xstrdup(t_path("again"));
    struct corpus_options o = {
        .files = &file, .n_files = 1, .out_dir = out, .seed = 1, .val_share = 0.1};
    struct corpus_report first, r;
    struct stat before, after;

    (void)state;
    t_write(file, "a b c\n\nd e f\n\ng h i");
    prepare(&o, &first);
    assert_false(first.already);
    assert_int_equal(stat(first.train.path, &before), 0);
    prepare(&o, &r);
    assert_true(r.already);
    assert_int_equal(r.train.tokens, first.train.tokens);
    assert_int_equal(r.val.source_bytes, first.val.source_bytes);
    assert_int_equal(stat(first.train.path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    o.seed = 2; // another split must not replace the one a run may be using
    prepare_refuses(&o, "--force replaces it");
    o.seed = 1;
    assert_int_equal(truncate(first.train.path, before.st_size - 2), 0);
    prepare(&o, &r); // damaged: made again
    assert_false(r.already);
    assert_int_equal(stat(first.train.path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    o.force = true;
    prepare(&o, &r);
    assert_false(r.already);
    assert_int_equal(count_files(out), 6);
    free(out);
}

static void bad_text_is_refused(void **state)
{
    const char *file = t_path("bad");
    char *out = xstrdup(t_path("bad-out"));
    struct corpus_options o = {
        .files = &file, .n_files = 1, .out_dir = out, .seed = 1, .val_share = 0.1};
    struct buf gz = {0};
    struct err err = ERR_INIT;
    FILE *f;

    (void)state;
    prepare_refuses(&o, "No such file");
    t_write(file, " \n\n");
    prepare_refuses(&o, "there is no text");
    t_write(file, "only one document");
    prepare_refuses(&o, "none can be held out");
    t_write(file, "same\n\nsame\n\nsame");
    prepare_refuses(&o, "none can be held out");
    f = fopen(file, "wb");
    fwrite("a\0b\n\nc\0d", 1, 8, f);
    fclose(f);
    prepare_refuses(&o, "NUL bytes");
    t_write(file, "PAR1 and so on");
    prepare_refuses(&o, "Parquet file, no text");
    write_gz(file, "first\n\nsecond\n\nthird\n\n", 22);
    assert_int_equal(file_read(file, 1000, &gz, &err), 0);
    assert_int_equal(truncate(file, (off_t)gz.len - 9), 0);
    prepare_refuses(&o, "unexpected end of file");
    file = t_dir();
    prepare_refuses(&o, "is a directory");
    o.val_share = 0.6;
    prepare_refuses(&o, "expected 0..50 %");
    o.val_share = 0.1;
    o.separator = "";
    prepare_refuses(&o, "separator is empty");
    assert_false(file_exists(out));
    buf_release(&gz);
    free(out);
}

// A limit on the file size stands in for a full disk: write fails half-way.
static void failed_write_leaves_nothing(void **state)
{
    char *text = many_documents(2000), *out = xstrdup(t_path("full"));
    const char *file = t_path("full.txt");
    struct corpus_options o = {
        .files = &file, .n_files = 1, .out_dir = out, .seed = 1, .val_share = 0.1};
    struct rlimit limit = {40000, 40000};
    int status;
    pid_t pid;

    (void)state;
    t_write(file, text);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        struct err err = ERR_INIT;
        struct corpus_report r;

        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(corpus_prepare(&o, &r, &err) == -1 && strstr(err.text, "cannot write '") &&
                      strstr(err.text, "File too large")
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_false(file_exists(out));
    free(text);
    free(out);
}

static int give_up(void *user, const char *phase, double done)
{
    (void)user;
    assert_true(done >= 0 && done <= 1);
    return !strcmp(phase, "writing");
}

static void interrupted_preparation_leaves_nothing(void **state)
{
    const char *file = t_path("stop.txt");
    char *out = xstrdup(t_path("stop"));
    struct corpus_options o = {.files = &file,
                               .n_files = 1,
                               .out_dir = out,
                               .seed = 1,
                               .val_share = 0.1,
                               .progress = give_up};

    (void)state;
    t_write(file, "a\n\nb\n\nc");
    prepare_refuses(&o, "interrupted");
    assert_false(file_exists(out));
    free(out);
}

// ---- the dictionary -----------------------------------------------------------------------------

static void synthetic_dictionary_has_exact_counts(void **state)
{
    const char *text = "\n\n00-info\n   About.\n\nA \\A\\\n   First; fa\xe7"
                       "ade.\n\n   2. More.\n\n"
                       "B \\B\\\n   haven\xb9t, market\x92s\n\nC \\C\\\n   Third.\n";
    char *out = xstrdup(t_path("dict")), *dz = xstrdup(t_path("small.dict.dz")), *t;
    struct corpus_options o = {
        .name = "gcide", .built_in_path = dz, .out_dir = out, .seed = 1, .val_share = 0};
    struct corpus_report r;

    (void)state;
    write_gz(dz, text, strlen(text));
    prepare(&o, &r);
    assert_int_equal(r.entries, 5);
    assert_int_equal(r.empty, 1);
    assert_int_equal(r.replaced_bytes, 3);
    assert_int_equal(r.train.documents, 4);
    // the text is two line ends, the documents, three separators of two bytes and a line end
    assert_int_equal(r.train.source_bytes, strlen(text) - 2 - 3 * 2 - 1);
    t = shard_text(r.train.path);
    assert_non_null(strstr(t, "A \\A\\\n   First; facade.\n\n   2. More.\1"));
    assert_non_null(strstr(t, "B \\B\\\n   haven't, market's\1"));
    free(t);
    free(out);
    free(dz);
}

static void missing_dictionary_names_the_command(void **state)
{
    struct corpus_options o = {.name = "gcide",
                               .built_in_path = t_path("nothing.dz"),
                               .out_dir = t_path("never"),
                               .seed = 1,
                               .val_share = 0.005};

    (void)state;
    prepare_refuses(&o, "apt-get install -y --no-install-recommends dict-gcide");
    o.name = "wikipedia";
    prepare_refuses(&o, "no built-in corpus 'wikipedia' (there is: gcide)");
}

static void real_dictionary_has_its_known_numbers(void **state)
{
    char *out;
    struct corpus_options o = {.name = "gcide", .seed = 1, .val_share = 0.005};
    struct corpus_report r;
    struct err err = ERR_INIT;
    struct audit a;
    struct shard s;

    (void)state;
    if (access(gcide_path, R_OK) < 0) {
        print_message("SKIP: dict-gcide is not installed\n");
        skip();
    }
    out = xstrdup(t_path("gcide"));
    o.out_dir = out;
    prepare(&o, &r);
    assert_int_equal(r.entries, 126301);
    assert_int_equal(r.replaced_bytes, 3);
    assert_int_equal(r.train.documents + r.val.documents, 126300);
    assert_true(r.val.documents > 550 && r.val.documents < 720); // 631.5 +- 3.5 sd
    // 39,952,321 bytes, less 126,300 separators of two bytes and stray blanks at document ends
    assert_in_range(r.train.source_bytes + r.val.source_bytes, 39952321 - 2 * 126300 - 200,
                    39952321 - 2 * 126300);
    assert_int_equal(shard_open(&s, r.train.path, TOKENS_AUTO, &err), 0);
    assert_int_equal(audit_shard(&s, CORPUS_VOCAB, &a, &err), 0);
    assert_string_equal(a.verdict, "");
    assert_int_equal(a.ends, r.train.documents);
    assert_true(a.kinds <= 97 && a.kinds > 90); // 99 bytes less 3 strays, plus the end
    assert_near(a.entropy_even, 4.66, 0.02);    // the measured order-0 entropy
    assert_near(a.entropy_odd, 4.66, 0.02);
    shard_close(&s);
    free(out);
}

// ---- commands -----------------------------------------------------------------------------------

// Runs `lathe …` in this process with stdout and stderr going to files; returns the exit code.
static int lathe(struct buf *out, struct buf *errors, const char *const *argv)
{
    const char *names[2] = {t_path("stdout"), t_path("stderr")};
    struct err err = ERR_INIT;
    int saved[2], argc = 0, rc;

    while (argv[argc])
        argc++;
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        int fd = open(names[i], O_WRONLY | O_CREAT | O_TRUNC, 0600);

        saved[i] = dup(i + 1);
        dup2(fd, i + 1);
        close(fd);
    }
    rc = cli_main(argc, (char **)(uintptr_t)argv);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(saved[i], i + 1);
        close(saved[i]);
    }
    assert_int_equal(file_read(names[0], 1 << 20, out, &err), 0);
    assert_int_equal(file_read(names[1], 1 << 20, errors, &err), 0);
    return rc;
}

#define LATHE(...) lathe(&out, &errors, (const char *const[]){"lathe", __VA_ARGS__, NULL})

static void commands_prepare_audit_and_peek(void **state)
{
    struct buf out = {0}, errors = {0};
    char *file = xstrdup(t_path("own.txt")), *dir = xstrdup(t_path("own"));
    char *train = xasprintf("%s/train.bin", dir);
    json_t *j;

    (void)state;
    t_write(file, "tab\there \\ \x1b[31m\nnext\n\nsecond document\n\nthird");
    assert_int_equal(LATHE("data", "prepare", file, "--out", dir, "--val-share", "0", "--json"), 0);
    assert_string_equal(errors.data, "");
    j = json_loads(out.data, 0, NULL);
    assert_non_null(j);
    assert_false(json_is_true(json_object_get(j, "already")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "train"), "documents")),
                     3);
    json_decref(j);
    assert_int_equal(LATHE("data", "prepare", file, "--out", dir, "--val-share", "0"), 0);
    assert_non_null(strstr(out.data, "already prepared and intact"));
    assert_int_equal(LATHE("data", "audit", train, "--vocab", "257"), 0);
    assert_non_null(strstr(out.data, "may be trained on"));
    assert_int_equal(LATHE("data", "audit", train, "--vocab", "100", "--json"), 3);
    j = json_loads(out.data, 0, NULL);
    assert_true(json_is_false(json_object_get(j, "ok")));
    assert_non_null(strstr(json_string_value(json_object_get(j, "verdict")), "vocabulary of 100"));
    json_decref(j);
    assert_int_equal(LATHE("data", "peek", train), 0);
    assert_non_null(strstr(out.data, "tab\\there \\\\ \\x1b[31m\\n\nnext<end of text>\n"));
    assert_null(strchr(out.data, '\x1b'));
    assert_int_equal(LATHE("data", "peek", train, "--offset", "1000"), 1);
    assert_non_null(strstr(errors.data, "behind the end"));
    buf_release(&out);
    buf_release(&errors);
    free(file);
    free(dir);
    free(train);
}

static void audit_command_tells_refusal_from_bad_input(void **state)
{
    struct buf out = {0}, errors = {0};
    char *path = xstrdup(t_path("a32.bin"));
    uint32_t ids[500];
    FILE *f = fopen(path, "wb");

    (void)state;
    for (int i = 0; i < 500; i++)
        ids[i] = 1 + (uint32_t)(rng_u64(1, (uint64_t)i) % 50000);
    fwrite(ids, sizeof ids, 1, f);
    fclose(f);
    assert_int_equal(LATHE("data", "audit", path, "--dtype", "u16", "--vocab", "50280"), 3);
    assert_non_null(strstr(errors.data, "it holds 32-bit ids"));
    assert_int_equal(LATHE("data", "audit", path, "--dtype", "u16", "--json"), 3);
    assert_non_null(strstr(out.data, "\"ok\": false"));
    assert_int_equal(LATHE("data", "audit", path, "--dtype", "u32", "--vocab", "50280"), 0);
    assert_int_equal(LATHE("data", "audit", "/no/such.bin"), 1);
    assert_int_equal(LATHE("data", "audit", path, "--dtype", "i8"), 2);
    assert_int_equal(LATHE("data", "audit"), 2);
    assert_int_equal(LATHE("data", "peek", path, "--dtype", "u32", "--n", "3"), 0);
    assert_non_null(strstr(out.data, "no known tokenizer: ids only"));
    assert_int_equal(LATHE("data", "prepare", "gcide", path), 2);
    assert_non_null(strstr(errors.data, "stands alone"));
    assert_int_equal(LATHE("data", "prepare", path, "--val-share", "x"), 2);
    assert_int_equal(LATHE("data", "prepare", path, "--val-share", "80%"), 1);
    buf_release(&out);
    buf_release(&errors);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_start_in_column_zero),
        cmocka_unit_test(paragraphs_end_at_blank_lines),
        cmocka_unit_test(carriage_returns_do_not_hide_blank_lines),
        cmocka_unit_test(separator_cuts_where_it_stands),
        cmocka_unit_test(every_document_is_on_one_side),
        cmocka_unit_test(same_seed_same_bytes_and_equal_documents_stay_together),
        cmocka_unit_test(documents_are_permuted_by_the_seed),
        cmocka_unit_test(gzip_text_and_several_files_are_read),
        cmocka_unit_test(intact_preparation_is_left_alone),
        cmocka_unit_test(bad_text_is_refused),
        cmocka_unit_test(failed_write_leaves_nothing),
        cmocka_unit_test(interrupted_preparation_leaves_nothing),
        cmocka_unit_test(synthetic_dictionary_has_exact_counts),
        cmocka_unit_test(missing_dictionary_names_the_command),
        cmocka_unit_test(real_dictionary_has_its_known_numbers),
        cmocka_unit_test(commands_prepare_audit_and_peek),
        cmocka_unit_test(audit_command_tells_refusal_from_bad_input),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
