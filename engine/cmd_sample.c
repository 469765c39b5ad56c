// lathe sample: text from a run's checkpoint, one token after the other.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/cli.h"
#include "engine/file.h"
#include "engine/restore.h"
#include "engine/run.h"
#include "engine/sampler.h"

enum { BYTES_VOCAB = 257, END_OF_TEXT = 256, MAX_PROMPT = 1 << 20 };

struct sampling {
    struct restored r;
    struct sampler sampler;
    bool bytes;    // ids are bytes and 256 is end-of-text
    bool passes;   // goes on behind an end of text
    bool quiet;    // nothing is printed on the way
    bool terminal; // standard output is one
    int32_t *ids;  // prompt, then what was drawn
    int n_prompt, n, want;
    double logprob;           // summed over what was drawn
    double seconds;           // of the tokens behind the prompt
    unsigned char pending[4]; // of a character that is not complete
    int n_pending;
};

static int refuse(const char *what, const char *subject)
{
    fprintf(stderr, "lathe sample: %s '%s'\nlathe help sample shows its options\n", what, subject);
    return CLI_USAGE;
}

// ---- the text as it comes -----------------------------------------------------------------------

static int sequence_length(unsigned char lead)
{
    return lead < 0x80   ? 1
           : lead < 0xc2 ? 0
           : lead < 0xe0 ? 2
           : lead < 0xf0 ? 3
           : lead < 0xf5 ? 4
                         : 0;
}

// What a terminal must not obey, and bytes that are no text, become a dot.
static void put_safely(struct sampling *s)
{
    unsigned char c = s->pending[0];
    // 0x80 to 0x9f as characters are control signs too
    bool obeys = (c < ' ' && c != '\n' && c != '\t') || c == 0x7f ||
                 (s->n_pending == 2 && c == 0xc2 && s->pending[1] < 0xa0);

    if (obeys || !sequence_length(c))
        fputs("·", stdout);
    else
        fwrite(s->pending, 1, (size_t)s->n_pending, stdout);
    s->n_pending = 0;
}

static void flush_broken(struct sampling *s)
{
    if (s->n_pending)
        fputs("·", stdout);
    s->n_pending = 0;
}

static void put_byte(struct sampling *s, unsigned char c)
{
    if (!s->terminal) {
        putchar(c);
        return;
    }
    if (s->n_pending && (c & 0xc0) != 0x80)
        flush_broken(s);
    s->pending[s->n_pending++] = c;
    if (s->n_pending >= sequence_length(s->pending[0]))
        put_safely(s);
}

static void put_token(struct sampling *s, int32_t id)
{
    if (s->quiet)
        return;
    if (!s->bytes)
        printf("%s%d", s->n > s->n_prompt ? " " : "", id);
    else if (id == END_OF_TEXT)
        put_byte(s, '\n');
    else
        put_byte(s, (unsigned char)id);
    fflush(stdout);
}

// ---- the prompt ---------------------------------------------------------------------------------

static void add_id(struct sampling *s, int32_t id)
{
    s->ids[s->n_prompt++] = id;
}

// "1,2,3"
static int prompt_ids(struct sampling *s, const char *text)
{
    char what[80];

    for (const char *at = text; *at;) {
        char *end;
        long id = strtol(at, &end, 10);

        if (end == at || (*end && *end != ','))
            return refuse("--prompt-ids takes ids like 1,2,3, not", text);
        if (id < 0 || id >= s->r.spec.model.vocab) {
            snprintf(what, sizeof what, "the vocabulary has the ids 0 to %d, not",
                     s->r.spec.model.vocab - 1);
            return refuse(what, text);
        }
        add_id(s, (int32_t)id);
        at = *end ? end + 1 : end;
    }
    return s->n_prompt ? 0 : refuse("--prompt-ids takes ids like 1,2,3, not", text);
}

static int read_prompt(const char *path, struct buf *out, struct err *err)
{
    char part[4096];
    size_t n;

    if (strcmp(path, "-"))
        return file_read(path, MAX_PROMPT, out, err);
    while ((n = fread(part, 1, sizeof part, stdin)) > 0 && out->len <= MAX_PROMPT)
        buf_add(out, part, n);
    return out->len > MAX_PROMPT ? err_set(err, "a prompt has at most %d bytes", MAX_PROMPT) : 0;
}

// Text begins as documents do in training: behind an end of text.
static int prompt_text(struct sampling *s, const struct cli_args *a)
{
    const char *file = cli_value(a, "prompt-file"), *text = cli_value(a, "prompt");
    struct buf b = {0};
    struct err err = ERR_INIT;

    if (!s->bytes) {
        err_set(
            &err,
            "the run's vocabulary of %d is no byte vocabulary (257), and lathe has no tokenizer "
            "for it: give the prompt as --prompt-ids 1,2,3",
            s->r.spec.model.vocab);
        return cli_fail(&err, CLI_INPUT);
    }
    if (file && read_prompt(file, &b, &err) < 0) {
        buf_release(&b);
        return cli_fail(&err, CLI_INPUT);
    }
    if (text)
        buf_str(&b, text);
    s->ids = xrealloc(s->ids, b.len + 1, sizeof *s->ids);
    add_id(s, END_OF_TEXT);
    for (size_t i = 0; i < b.len; i++)
        add_id(s, (unsigned char)b.data[i]);
    buf_release(&b);
    return 0;
}

static int parse_prompt(struct sampling *s, const struct cli_args *a)
{
    const char *ids = cli_value(a, "prompt-ids");

    if (ids && (cli_has(a, "prompt") || cli_has(a, "prompt-file")))
        return refuse("one prompt at a time: --prompt-ids beside", "--prompt");
    if (cli_has(a, "prompt") && cli_has(a, "prompt-file"))
        return refuse("one prompt at a time: --prompt beside", "--prompt-file");
    if (!ids)
        return prompt_text(s, a);
    s->ids = xrealloc(s->ids, strlen(ids) + 1, sizeof *s->ids);
    s->bytes = false; // ids in, ids out
    return prompt_ids(s, ids);
}

// ---- numbers ------------------------------------------------------------------------------------

static int whole(const struct cli_args *a, const char *option, int64_t least, int64_t most,
                 int64_t *out)
{
    const char *text = cli_value(a, option);
    char what[96];

    if (!text || (unit_parse_count(text, out) && *out >= least && *out <= most))
        return 0;
    snprintf(what, sizeof what, "--%s takes a whole number from %lld to %lld, not", option,
             (long long)least, (long long)most);
    return refuse(what, text);
}

static int parse_numbers(struct sampling *s, const struct cli_args *a, int64_t *step)
{
    const char *temperature = cli_value(a, "temperature");
    int64_t tokens = 200, top_k = 0, seed = 1;
    int rc;

    *step = -1;
    s->sampler.temperature = 1;
    if (temperature && (!unit_parse_float(temperature, &s->sampler.temperature) ||
                        s->sampler.temperature < 0 || s->sampler.temperature > 1e6))
        return refuse("--temperature takes a number from 0, not", temperature);
    if ((rc = whole(a, "tokens", 1, 1 << 24, &tokens)) ||
        (rc = whole(a, "top-k", 1, INT32_MAX, &top_k)) ||
        (rc = whole(a, "seed", 0, INT64_MAX, &seed)) || (rc = whole(a, "step", 0, INT64_MAX, step)))
        return rc;
    s->want = (int)tokens;
    s->sampler.top_k = (int)top_k;
    s->sampler.seed = (uint64_t)seed;
    s->passes = cli_has(a, "no-stop");
    s->quiet = cli_has(a, "json");
    s->terminal = isatty(1);
    return 0;
}

// The cache takes as many positions as are asked for. A table of positions has no more than it was
// trained with; other encodings go on, less and less well.
static int fit_length(struct sampling *s, struct err *err)
{
    struct train_spec *t = &s->r.spec.train;
    int64_t all = (int64_t)s->n_prompt + s->want - 1; // the last token is never read

    if (s->r.spec.model.pos == POS_LEARNED && all > t->seq_len)
        return err_set(
            err,
            "the run has learned positions for %d tokens; a prompt of %d leaves room for "
            "--tokens %d",
            t->seq_len, s->n_prompt,
            t->seq_len - s->n_prompt + 1 > 0 ? t->seq_len - s->n_prompt + 1 : 0);
    if (all > t->seq_len)
        fprintf(stderr, "note: the model was trained on %d tokens at a time\n", t->seq_len);
    if (s->r.spec.model.pos != POS_LEARNED)
        t->seq_len = all > 0 ? (int)all : 1;
    t->micro_batch_size = 1;
    return 0;
}

// ---- sampling -----------------------------------------------------------------------------------

static int next_token(struct sampling *s, const float *logits, struct err *err)
{
    double logprob;
    int id = sampler_next(&s->sampler, logits, s->n, &logprob, err);

    if (id < 0)
        return -1;
    s->logprob += logprob;
    s->ids[s->n] = id;
    put_token(s, id);
    s->n++;
    return id;
}

static int generate(struct sampling *s, struct err *err)
{
    float *logits = xcalloc((size_t)spec_padded_vocab(&s->r.spec.model), sizeof *logits);
    int rc = model_decode(s->r.model, s->ids, s->n_prompt, logits, err), id = -1;
    double start = run_now();

    s->n = s->n_prompt;
    for (int i = 0; i < s->want && rc == 0; i++) {
        if (i > 0)
            rc = model_decode(s->r.model, s->ids + s->n - 1, 1, logits, err);
        if (rc == 0 && (id = next_token(s, logits, err)) < 0)
            rc = -1;
        if (rc == 0 && s->bytes && id == END_OF_TEXT && !s->passes)
            break;
    }
    s->seconds = run_now() - start;
    free(logits);
    return rc;
}

// ---- the answer ---------------------------------------------------------------------------------

static json_t *ids_json(const int32_t *ids, int n)
{
    json_t *a = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_integer(ids[i]));
    return a;
}

static bool is_continuation(const int32_t *ids, int n, int i, int length)
{
    for (int k = 1; k < length; k++)
        if (i + k >= n || ids[i + k] > 255 || (ids[i + k] & 0xc0) != 0x80)
            return false;
    return true;
}

// Bytes as text; what is no character becomes U+FFFD, an end of text a line end.
static json_t *text_json(const int32_t *ids, int n)
{
    struct buf b = {0};
    json_t *j;

    buf_str(&b, "");
    for (int i = 0; i < n; i++) {
        int length = ids[i] < 256 ? sequence_length((unsigned char)ids[i]) : 0;
        size_t before = b.len;

        if (ids[i] == END_OF_TEXT) {
            buf_str(&b, "\n");
            continue;
        }
        for (int k = 0; length && is_continuation(ids, n, i, length) && k < length; k++)
            buf_add(&b, &(char){(char)ids[i + k]}, 1);
        j = b.len > before ? json_stringn(b.data + before, b.len - before) : NULL;
        if (j) {
            i += length - 1;
            json_decref(j);
        } else { // also what only looks like UTF-8: surrogates, forms that are too long
            b.len = before;
            buf_str(&b, "\xef\xbf\xbd");
        }
    }
    j = json_stringn(b.data, b.len);
    buf_release(&b);
    return j;
}

static void print_json(const struct sampling *s)
{
    int drawn = s->n - s->n_prompt, skip = s->bytes; // the end of text before the prompt
    json_t *j =
        json_pack("{s:s, s:I, s:I, s:f, s:i, s:o, s:o, s:f, s:f}", "run", s->r.run, "step",
                  (json_int_t)s->r.step, "seed", (json_int_t)s->sampler.seed, "temperature",
                  s->sampler.temperature, "top_k", s->sampler.top_k, "prompt_ids",
                  ids_json(s->ids, s->n_prompt), "ids", ids_json(s->ids + s->n_prompt, drawn),
                  "logprob", s->logprob / drawn, "tokens_per_s", drawn / fmax(s->seconds, 1e-9));

    if (s->bytes) {
        json_object_set_new(j, "prompt", text_json(s->ids + skip, s->n_prompt - skip));
        json_object_set_new(j, "text", text_json(s->ids + s->n_prompt, drawn));
    }
    cli_print_json(j);
}

static int sample(struct sampling *s, const struct cli_args *a, struct err *err)
{
    s->ids = xrealloc(s->ids, (size_t)s->n_prompt + (size_t)s->want, sizeof *s->ids);
    s->sampler.vocab = s->r.spec.model.vocab;
    if (fit_length(s, err) < 0 ||
        restore_load(&s->r, cli_value(a, "backend"), MODEL_DECODE, err) < 0)
        return -1;
    for (int i = s->bytes; i < s->n_prompt && s->bytes; i++) // the text as a whole
        put_token(s, s->ids[i]);
    if (generate(s, err))
        return -1;
    if (s->quiet) {
        print_json(s);
        return 0;
    }
    flush_broken(s);
    putchar('\n');
    return 0;
}

int cmd_sample(const struct cli_command *cmd, int argc, char **argv)
{
    struct sampling *s = xcalloc(1, sizeof *s);
    struct cli_args a;
    struct err err = ERR_INIT;
    int64_t step;
    int rc = cli_parse(cmd, argc, argv, &a);

    if (!rc && !(rc = parse_numbers(s, &a, &step))) {
        if (restore_find(&s->r, a.operand[0], step, &err) < 0) {
            rc = cli_fail(&err, CLI_INPUT);
        } else {
            s->bytes = s->r.spec.model.vocab == BYTES_VOCAB;
            rc = parse_prompt(s, &a);
            if (!rc && sample(s, &a, &err) < 0)
                rc = cli_fail(&err, CLI_INPUT);
        }
        restore_close(&s->r);
    }
    free(s->ids);
    free(s);
    return rc;
}
