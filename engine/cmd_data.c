// lathe data prepare | audit | peek: token files from text, judged, and looked at.
#include "engine/cli.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include "engine/audit.h"
#include "engine/buf.h"
#include "engine/corpus.h"
#include "engine/shard.h"

// ---- options ------------------------------------------------------------------------------------

// The option's value as a count within min..max, or `fallback` when it is absent. -1 = told why.
static int count_option(const struct cli_args *a, const char *name, int64_t min, int64_t max,
                        int64_t *out)
{
    const char *text = cli_value(a, name);

    if (!text)
        return 0;
    if (unit_parse_count(text, out) && *out >= min && *out <= max)
        return 0;
    fprintf(stderr, "lathe: --%s '%s' is not a number from %lld to %lld\n", name, text,
            (long long)min, (long long)max);
    return -1;
}

static int dtype_option(const struct cli_args *a, enum token_dtype *out)
{
    const char *text = cli_value(a, "dtype");

    *out = TOKENS_AUTO;
    if (!text)
        return 0;
    if (!strcmp(text, "u16") || !strcmp(text, "uint16"))
        *out = TOKENS_U16;
    else if (!strcmp(text, "u32") || !strcmp(text, "uint32"))
        *out = TOKENS_U32;
    else
        return fprintf(stderr, "lathe: --dtype '%s' is unknown (expected u16 or u32)\n", text), -1;
    return 0;
}

// Turns \n, \t and \\ into what they mean; other text stays.
static char *unescape(const char *s)
{
    char *out = xstrdup(s), *p = out;

    for (; *s; s++) {
        if (*s == '\\' && s[1] && strchr("nt\\", s[1]))
            *p++ = *++s == 'n' ? '\n' : *s == 't' ? '\t' : '\\';
        else
            *p++ = *s;
    }
    *p = '\0';
    return out;
}

// ---- prepare ------------------------------------------------------------------------------------

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
    (void)sig;
    interrupted = 1;
}

struct progress {
    double start, last; // monotonic seconds; last = of the last line shown
    bool shown, tty;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Nothing during the first second; then a line that renews itself, or one line each five seconds
// where stderr is no terminal.
static int show_progress(void *user, const char *phase, double done)
{
    struct progress *p = user;
    double t = now();

    if (t - p->start < 1 || t - p->last < (p->tty ? 0.2 : 5))
        return interrupted;
    fprintf(stderr, p->tty ? "\r%s the text: %3.0f %% " : "%s the text: %.0f %%\n", phase,
            100 * done);
    fflush(stderr);
    p->last = t;
    p->shown = true;
    return interrupted;
}

static int prepare_watched(struct corpus_options *o, struct corpus_report *r, struct err *err)
{
    struct progress p = {.start = now(), .last = 0, .tty = isatty(STDERR_FILENO)};
    struct sigaction catch = {.sa_handler = on_signal}, old[2];
    int rc;

    interrupted = 0;
    sigaction(SIGINT, &catch, &old[0]);
    sigaction(SIGTERM, &catch, &old[1]);
    o->progress = show_progress;
    o->user = &p;
    rc = corpus_prepare(o, r, err);
    if (p.shown && p.tty)
        fprintf(stderr, "\r%30s\r", "");
    sigaction(SIGINT, &old[0], NULL);
    sigaction(SIGTERM, &old[1], NULL);
    return rc;
}

static void print_part(const struct corpus_part *part)
{
    char docs[UNIT_SIZE], tokens[UNIT_SIZE], bytes[UNIT_SIZE];

    printf("  %s: %s documents, %s tokens, %s bytes of text\n", part->path,
           unit_thousands(docs, part->documents), unit_thousands(tokens, part->tokens),
           unit_thousands(bytes, part->source_bytes));
}

static void print_report(const struct corpus_report *r)
{
    char n[UNIT_SIZE];

    if (r->already) {
        printf("already prepared and intact:\n");
    } else {
        printf("%s parts", unit_thousands(n, r->entries));
        if (r->empty)
            printf(", %s of them empty", unit_thousands(n, r->empty));
        if (r->replaced_bytes)
            printf("; %s stray bytes replaced", unit_thousands(n, r->replaced_bytes));
        printf("\n");
    }
    print_part(&r->train);
    if (!r->no_val)
        print_part(&r->val);
}

static json_t *part_to_json(const struct corpus_part *part)
{
    json_t *j = json_object();

    json_object_set_new(j, "file", json_string(part->path));
    json_object_set_new(j, "documents", json_integer(part->documents));
    json_object_set_new(j, "tokens", json_integer(part->tokens));
    json_object_set_new(j, "source_bytes", json_integer(part->source_bytes));
    return j;
}

static json_t *report_to_json(const struct corpus_report *r)
{
    json_t *j = json_object();

    json_object_set_new(j, "already", json_boolean(r->already));
    if (!r->already) {
        json_object_set_new(j, "parts", json_integer(r->entries));
        json_object_set_new(j, "empty_parts", json_integer(r->empty));
        json_object_set_new(j, "replaced_bytes", json_integer(r->replaced_bytes));
    }
    json_object_set_new(j, "train", part_to_json(&r->train));
    if (!r->no_val)
        json_object_set_new(j, "val", part_to_json(&r->val));
    return j;
}

static bool is_built_in(const char *name)
{
    for (int i = 0; corpus_built_in(i); i++)
        if (!strcmp(corpus_built_in(i), name))
            return true;
    return false;
}

static int choose_text(const struct cli_args *a, struct corpus_options *o)
{
    o->files = a->operand;
    o->n_files = a->n_operands;
    for (int i = 0; i < a->n_operands; i++) {
        if (!is_built_in(a->operand[i]))
            continue;
        if (a->n_operands > 1) {
            fprintf(stderr,
                    "lathe: the built-in corpus '%s' stands alone; a file of that name is ./%s\n",
                    a->operand[i], a->operand[i]);
            return -1;
        }
        o->name = a->operand[i];
    }
    if (a->n_operands == 0)
        o->name = corpus_built_in(0);
    if (o->name)
        o->n_files = 0;
    return 0;
}

int cmd_data_prepare(const struct cli_command *cmd, int argc, char **argv)
{
    struct corpus_options o = {.seed = 1, .val_share = 0.005};
    struct corpus_report r;
    struct err err = ERR_INIT;
    struct cli_args a;
    const char *share;
    char *separator;
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc)
        return rc;
    if (choose_text(&a, &o) < 0 || count_option(&a, "seed", 0, INT64_MAX, &o.seed) < 0)
        return CLI_USAGE;
    share = cli_value(&a, "val-share");
    if (share && !unit_parse_float(share, &o.val_share)) {
        fprintf(stderr, "lathe: --val-share '%s' is not a share such as 0.5%% or 0.005\n", share);
        return CLI_USAGE;
    }
    separator = cli_has(&a, "separator") ? unescape(cli_value(&a, "separator")) : NULL;
    o.separator = separator;
    o.out_dir = cli_value(&a, "out");
    o.force = cli_has(&a, "force");
    rc = prepare_watched(&o, &r, &err);
    free(separator);
    if (rc < 0)
        return cli_fail(&err, CLI_INPUT);
    if (cli_has(&a, "json"))
        cli_print_json(report_to_json(&r));
    else
        print_report(&r);
    return CLI_OK;
}

// ---- audit --------------------------------------------------------------------------------------

static void print_id(uint32_t id, const struct shard *s)
{
    if (s->eot >= 0 && id == (uint32_t)s->eot)
        printf("%u (end of text)", id);
    else if (s->bytes_are_tokens && id > ' ' && id < 0x7f)
        printf("%u '%c'", id, (int)id);
    else if (s->bytes_are_tokens && id == ' ')
        printf("%u (space)", id);
    else
        printf("%u", id);
}

static void print_audit(const struct shard *s, const struct audit *a)
{
    char n[UNIT_SIZE], m[UNIT_SIZE];

    printf("file         %s\n", s->path);
    printf("layout       %s, %d-bit ids\n", s->has_header ? "llm.c header" : "no header",
           s->u16 ? 16 : 32);
    printf("tokens       %s, %s looked at\n", unit_thousands(n, a->tokens),
           a->scanned == a->tokens ? "all" : unit_thousands(m, a->scanned));
    if (a->documents)
        printf("documents    %s\n", unit_thousands(n, a->documents));
    if (s->source_bytes)
        printf("source       %s bytes%s%s\n", unit_thousands(n, s->source_bytes),
               s->source[0] ? ", " : "", s->source);
    printf("ids          %s kinds, largest %u", unit_thousands(n, a->kinds), a->max_id);
    if (a->vocab)
        printf(", vocabulary %d", a->vocab);
    printf("\nmost common  ");
    print_id(a->most_common, s);
    printf(", %.1f %%\n", 100 * a->most_common_share);
    printf("entropy      %.3f bits in even positions, %.3f in odd ones\n", a->entropy_even,
           a->entropy_odd);
    printf("longest run  %s times ", unit_thousands(n, a->longest_run));
    print_id(a->longest_run_id, s);
    printf(" from token %lld\n", (long long)a->longest_run_at);
    if (a->ends >= 0)
        printf("text ends    %s\n", unit_thousands(n, a->ends));
    printf("verdict      %s%s%s\n", a->ok ? "may be trained on" : "REFUSED",
           a->verdict[0] ? ": " : "", a->verdict);
}

// A file that is there but is not what it should be was judged; anything else is bad input.
static int refuse_unread(const struct shard *s, const struct err *err, bool json)
{
    struct stat st;
    json_t *j;

    if (stat(s->path, &st) < 0 || !S_ISREG(st.st_mode) || access(s->path, R_OK) < 0)
        return cli_fail(err, CLI_INPUT);
    if (!json)
        return cli_fail(err, CLI_NO);
    j = json_object();
    json_object_set_new(j, "file", json_string(s->path));
    json_object_set_new(j, "ok", json_false());
    json_object_set_new(j, "verdict", json_string(err->text));
    cli_print_json(j);
    return CLI_NO;
}

int cmd_data_audit(const struct cli_command *cmd, int argc, char **argv)
{
    enum token_dtype dtype;
    struct err err = ERR_INIT;
    struct cli_args args;
    struct audit a;
    struct shard s;
    int64_t vocab = 0;
    int rc = cli_parse(cmd, argc, argv, &args);

    if (rc)
        return rc;
    if (dtype_option(&args, &dtype) < 0 ||
        count_option(&args, "vocab", 1, SHARD_MAX_VOCAB, &vocab) < 0)
        return CLI_USAGE;
    if (shard_open(&s, args.operand[0], dtype, &err) < 0)
        return refuse_unread(&s, &err, cli_has(&args, "json"));
    rc = audit_shard(&s, (int)vocab, &a, &err) < 0 ? CLI_NO : CLI_OK;
    if (cli_has(&args, "json"))
        cli_print_json(audit_to_json(&s, &a));
    else
        print_audit(&s, &a);
    if (rc == CLI_NO)
        cli_fail(&err, CLI_NO);
    shard_close(&s);
    return rc;
}

// ---- peek ---------------------------------------------------------------------------------------

// One character of UTF-8 at text[0..n) that may be printed as it is, or 0.
static size_t printable(const char *text, size_t n)
{
    mbstate_t state = {0};
    wchar_t c;
    size_t len = mbrtowc(&c, text, n, &state);

    return len > 0 && len <= n && iswprint((wint_t)c) ? len : 0;
}

// Text of a byte-level file: everything invisible escaped, lines broken at line ends.
static void escape_bytes(struct buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = printable(text + i, n - i);

        if (text[i] == '\n')
            buf_str(out, "\\n\n");
        else if (text[i] == '\\')
            buf_str(out, "\\\\");
        else if (text[i] == '\t')
            buf_str(out, "\\t");
        else if (len)
            buf_add(out, text + i, len);
        else
            buf_fmt(out, "\\x%02x", (unsigned char)text[i]);
        i += len ? len : 1;
    }
}

static void decode(const struct shard *s, int64_t from, int64_t to, struct buf *out)
{
    struct buf bytes = {0};

    for (int64_t i = from; i < to; i++) {
        uint32_t id = shard_token(s, i);
        char c = (char)id;

        if (s->bytes_are_tokens && id < 256) {
            buf_add(&bytes, &c, 1);
            continue;
        }
        escape_bytes(out, bytes.data, bytes.len);
        buf_reset(&bytes);
        if (s->eot >= 0 && id == (uint32_t)s->eot)
            buf_fmt(out, "<end of text>\n");
        else
            buf_fmt(out, s->bytes_are_tokens ? "<id %u>" : "%u ", id);
    }
    escape_bytes(out, bytes.data, bytes.len);
    buf_release(&bytes);
}

static json_t *peek_to_json(const struct shard *s, int64_t from, int64_t to, const char *text)
{
    json_t *j = json_object(), *ids = json_array();

    for (int64_t i = from; i < to; i++)
        json_array_append_new(ids, json_integer(shard_token(s, i)));
    json_object_set_new(j, "file", json_string(s->path));
    json_object_set_new(j, "tokens", json_integer(s->n));
    json_object_set_new(j, "offset", json_integer(from));
    json_object_set_new(j, "ids", ids);
    if (s->bytes_are_tokens)
        json_object_set_new(j, "text", json_string(text));
    return j;
}

static void print_peek(const struct shard *s, int64_t from, int64_t to, const char *text)
{
    char n[UNIT_SIZE];

    printf("%s: tokens %lld to %lld of %s, %d-bit ids, %s\n", s->path, (long long)from,
           (long long)to - 1, unit_thousands(n, s->n), s->u16 ? 16 : 32,
           s->bytes_are_tokens ? "bytes" : "no known tokenizer: ids only");
    printf("%s\n", text);
}

int cmd_data_peek(const struct cli_command *cmd, int argc, char **argv)
{
    int64_t n = 100, offset = 0, to;
    enum token_dtype dtype;
    struct err err = ERR_INIT;
    struct buf text = {0};
    struct cli_args a;
    struct shard s;
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc)
        return rc;
    if (dtype_option(&a, &dtype) < 0 || count_option(&a, "n", 1, 1 << 20, &n) < 0 ||
        count_option(&a, "offset", 0, INT64_MAX, &offset) < 0)
        return CLI_USAGE;
    if (shard_open(&s, a.operand[0], dtype, &err) < 0)
        return cli_fail(&err, CLI_INPUT);
    if (offset >= s.n) {
        err_set(&err, "--offset %lld is behind the end of '%s' (expected 0..%lld)",
                (long long)offset, s.path, (long long)s.n - 1);
        shard_close(&s);
        return cli_fail(&err, CLI_INPUT);
    }
    to = n < s.n - offset ? offset + n : s.n;
    buf_str(&text, "");
    decode(&s, offset, to, &text);
    if (cli_has(&a, "json"))
        cli_print_json(peek_to_json(&s, offset, to, text.data));
    else
        print_peek(&s, offset, to, text.data);
    buf_release(&text);
    shard_close(&s);
    return CLI_OK;
}
