#include "engine/audit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"

enum {
    BLOCK = 1 << 20,      // tokens between two looks at the file's size
    LOW_IDS = 32,         // high halves of ids below 2^21
    MIN_FOR_SHAPE = 32,   // shorter files have no statistics to judge
    RUN_WARN = 4096,      // one id this often in a row is worth a word
    RUN_REFUSE = 1 << 20, // nothing written has this: a hole in the file
};

// Unigram counts of even and odd positions.
struct histogram {
    int64_t *count[2];
    uint32_t size; // ids below it are counted
};

struct run {
    uint32_t id;
    int64_t length;
};

// ---- scanning -----------------------------------------------------------------------------------

static void note_beyond(struct audit *a, int64_t at)
{
    if (a->beyond_vocab++ == 0)
        a->beyond_at = at;
}

static void end_run(struct audit *a, const struct run *r, int64_t end)
{
    if (r->length <= a->longest_run)
        return;
    a->longest_run = r->length;
    a->longest_run_at = end - r->length;
    a->longest_run_id = r->id;
}

static void scan_block(const struct shard *s, int64_t from, int64_t to, struct histogram *h,
                       struct audit *a)
{
    uint32_t limit = a->vocab ? (uint32_t)a->vocab : UINT32_MAX;
    struct run r = {shard_token(s, from), 0};

    for (int64_t i = from; i < to; i++) {
        uint32_t id = shard_token(s, i);

        if (id < h->size)
            h->count[i & 1][id]++;
        if (id > a->max_id)
            a->max_id = id;
        if (id >= limit)
            note_beyond(a, i);
        if (id != r.id) {
            end_run(a, &r, i);
            r = (struct run){id, 0};
        }
        r.length++;
    }
    end_run(a, &r, to);
    a->scanned += to - from;
}

// Blocks of BLOCK tokens: all of a small file, else as many as fit the bound, first and last
// included. They start at even positions.
static int scan(const struct shard *s, struct histogram *h, struct audit *a, struct err *err)
{
    int64_t blocks = (s->n + BLOCK - 1) / BLOCK, most = AUDIT_MAX_TOKENS / BLOCK;
    int64_t n = blocks < most ? blocks : most;

    for (int64_t k = 0; k < n; k++) {
        int64_t b = blocks <= most ? k : k * (blocks - 1) / (most - 1);
        int64_t to = (b + 1) * BLOCK < s->n ? (b + 1) * BLOCK : s->n;

        if (shard_check(s, err) < 0)
            return -1;
        scan_block(s, b * BLOCK, to, h, a);
    }
    return 0;
}

// ---- statistics ---------------------------------------------------------------------------------

static double entropy(const int64_t *count, uint32_t size)
{
    double total = 0, sum = 0;

    for (uint32_t i = 0; i < size; i++) {
        if (!count[i])
            continue;
        total += (double)count[i];
        sum += (double)count[i] * log2((double)count[i]);
    }
    return total > 0 ? log2(total) - sum / total : 0;
}

static double low_share(const int64_t *count, uint32_t size)
{
    double total = 0, low = 0;

    for (uint32_t i = 0; i < size; i++) {
        total += (double)count[i];
        low += i < LOW_IDS ? (double)count[i] : 0;
    }
    return total > 0 ? low / total : 0;
}

static void note_common(struct audit *a, uint32_t id, int64_t count)
{
    int at = AUDIT_COMMON;

    while (at > 0 && a->common[at - 1].count < count)
        at--;
    if (at == AUDIT_COMMON)
        return;
    memmove(&a->common[at + 1], &a->common[at],
            (size_t)(AUDIT_COMMON - 1 - at) * sizeof a->common[0]);
    a->common[at] = (struct audit_id){id, count};
}

static void fill_statistics(const struct shard *s, const struct histogram *h, struct audit *a)
{
    for (uint32_t i = 0; i < h->size; i++) {
        int64_t count = h->count[0][i] + h->count[1][i];

        a->kinds += count > 0;
        if (count > a->common[AUDIT_COMMON - 1].count)
            note_common(a, i, count);
    }
    a->most_common = a->common[0].id;
    a->most_common_share = a->scanned ? (double)a->common[0].count / (double)a->scanned : 0;
    a->entropy_even = entropy(h->count[0], h->size);
    a->entropy_odd = entropy(h->count[1], h->size);
    a->even_low = low_share(h->count[0], h->size);
    a->odd_low = low_share(h->count[1], h->size);
    a->ends = -1;
    if (s->eot >= 0)
        a->ends = (uint32_t)s->eot < h->size ? h->count[0][s->eot] + h->count[1][s->eot] : 0;
}

// ---- judging ------------------------------------------------------------------------------------

// One position's ids carry (almost) nothing and are all small while the other's carry the text:
// the halves of wider ids. This is the file the layer-wise-scaling paper was trained on.
static bool halves(double entropy_high, double low_high, double entropy_low, double low_low)
{
    bool poor = entropy_low > 1 && entropy_high < 0.5 * entropy_low;

    return poor && low_high > 0.999 && (low_low < 0.5 || entropy_high < 0.01);
}

static int judge_width(const struct shard *s, const struct audit *a, struct err *err)
{
    bool odd = halves(a->entropy_odd, a->odd_low, a->entropy_even, a->even_low);
    bool even = halves(a->entropy_even, a->even_low, a->entropy_odd, a->odd_low);
    int bits = s->u16 ? 16 : 32;

    if (s->u32 && a->max_id >= SHARD_MAX_VOCAB)
        return err_set(err,
                       "'%s': id %u is far above any vocabulary: 16-bit ids are being read as "
                       "32-bit ids",
                       s->path, a->max_id);
    if (a->scanned < MIN_FOR_SHAPE || (!odd && !even))
        return 0;
    return err_set(err,
                   "'%s': %s positions hold almost nothing (entropy %.2f bits, the others %.2f): "
                   "%d-bit ids are being read as %d-bit ids",
                   s->path, odd ? "odd" : "even", odd ? a->entropy_odd : a->entropy_even,
                   odd ? a->entropy_even : a->entropy_odd, bits * 2, bits);
}

static int judge_ids(const struct shard *s, const struct audit *a, struct err *err)
{
    if (a->beyond_vocab)
        return err_set(err,
                       "'%s': %lld of %lld ids are beyond the vocabulary of %d (expected 0..%d); "
                       "the largest is %u, the first is %u at token %lld",
                       s->path, (long long)a->beyond_vocab, (long long)a->scanned, a->vocab,
                       a->vocab - 1, a->max_id, shard_token(s, a->beyond_at),
                       (long long)a->beyond_at);
    if (a->scanned >= MIN_FOR_SHAPE && a->most_common_share > 0.9)
        return err_set(err,
                       "'%s': %.1f %% of its tokens are id %u; there is nothing to learn in it",
                       s->path, 100 * a->most_common_share, a->most_common);
    if (a->longest_run >= RUN_REFUSE ||
        (a->longest_run >= RUN_WARN && a->longest_run > a->scanned / 4))
        return err_set(err,
                       "'%s': id %u stands %lld times in a row from token %lld: the file has a "
                       "hole, perhaps from an interrupted copy",
                       s->path, a->longest_run_id, (long long)a->longest_run,
                       (long long)a->longest_run_at);
    if (a->ends == 0 && a->scanned == a->tokens)
        return err_set(err, "'%s': its end-of-text id %d never occurs, though the file claims one",
                       s->path, s->eot);
    return 0;
}

static int judge(const struct shard *s, const struct audit *a, struct err *err)
{
    if (a->tokens < 2)
        return err_set(err, "'%s' has %lld token, at least 2 are needed", s->path,
                       (long long)a->tokens);
    if (judge_width(s, a, err) < 0)
        return -1;
    return judge_ids(s, a, err);
}

static void warn(const struct shard *s, struct audit *a)
{
    struct buf b = {0};

    if (a->scanned < a->tokens)
        buf_fmt(&b, "looked at %lld of %lld tokens; ", (long long)a->scanned, (long long)a->tokens);
    if (a->scanned >= MIN_FOR_SHAPE && a->most_common_share > 0.5)
        buf_fmt(&b, "%.0f %% of the tokens are id %u; ", 100 * a->most_common_share,
                a->most_common);
    if (a->longest_run >= RUN_WARN)
        buf_fmt(&b, "id %u stands %lld times in a row from token %lld; ", a->longest_run_id,
                (long long)a->longest_run, (long long)a->longest_run_at);
    if (a->ends == 0)
        buf_fmt(&b, "no end-of-text %d in the part looked at; ", s->eot);
    if (s->vocab && a->vocab > 2 * s->vocab)
        buf_fmt(&b, "the model's vocabulary is %d, the file's %d; ", a->vocab, s->vocab);
    snprintf(a->verdict, sizeof a->verdict, "%.*s", b.len > 2 ? (int)b.len - 2 : 0,
             b.data ? b.data : "");
    buf_release(&b);
}

int audit_shard(const struct shard *s, int vocab, struct audit *a, struct err *err)
{
    struct histogram h = {.size = s->u16 ? 1 << 16 : SHARD_MAX_VOCAB};
    struct err reason = ERR_INIT;
    int rc;

    *a = (struct audit){.tokens = s->n,
                        .documents = s->documents,
                        .vocab = vocab ? vocab : s->vocab,
                        .beyond_at = -1};
    for (int i = 0; i < 2; i++)
        h.count[i] = xcalloc(h.size, sizeof *h.count[i]);
    rc = scan(s, &h, a, &reason);
    fill_statistics(s, &h, a);
    for (int i = 0; i < 2; i++)
        free(h.count[i]);
    if (rc == 0)
        rc = judge(s, a, &reason);
    a->ok = rc == 0;
    if (a->ok)
        warn(s, a);
    else
        snprintf(a->verdict, sizeof a->verdict, "%.*s", (int)sizeof a->verdict - 1, reason.text);
    return rc == 0 ? 0 : err_set(err, "%s", reason.text);
}

json_t *audit_to_json(const struct shard *s, const struct audit *a)
{
    json_t *common = json_array(), *j;

    for (int i = 0; i < AUDIT_COMMON && a->common[i].count; i++)
        json_array_append_new(common, json_pack("{s:I s:I}", "id", (json_int_t)a->common[i].id,
                                                "count", (json_int_t)a->common[i].count));
    j = json_pack("{s:s s:b s:s s:s s:b s:I s:I s:I s:i s:i}", "file", s->path, "ok", a->ok,
                  "verdict", a->verdict, "dtype", s->u16 ? "uint16" : "uint32", "header",
                  s->has_header, "tokens", (json_int_t)a->tokens, "scanned", (json_int_t)a->scanned,
                  "documents", (json_int_t)a->documents, "vocab", a->vocab, "eot", s->eot);
    if (!j) // a name that is no UTF-8
        j = json_pack("{s:b}", "ok", a->ok);
    json_object_set_new(j, "tokenizer", json_string(s->tokenizer));
    json_object_set_new(j, "source_bytes", json_integer(s->source_bytes));
    json_object_set_new(j, "max_id", json_integer(a->max_id));
    json_object_set_new(j, "kinds", json_integer(a->kinds));
    json_object_set_new(j, "most_common", json_integer(a->most_common));
    json_object_set_new(j, "most_common_share", json_real(a->most_common_share));
    json_object_set_new(j, "common", common);
    json_object_set_new(j, "entropy_even", json_real(a->entropy_even));
    json_object_set_new(j, "entropy_odd", json_real(a->entropy_odd));
    json_object_set_new(j, "longest_run", json_integer(a->longest_run));
    json_object_set_new(j, "longest_run_at", json_integer(a->longest_run_at));
    json_object_set_new(j, "beyond_vocab", json_integer(a->beyond_vocab));
    json_object_set_new(j, "ends_of_text", a->ends < 0 ? json_null() : json_integer(a->ends));
    return j;
}
