#include "tests/training.h"

#include <math.h>

#include "engine/file.h"
#include "engine/rng.h"
#include "engine/shard.h"
#include "tests/t.h"
#include "tests/tiny.h"

// ---- text and profile ---------------------------------------------------------------------------

static int sentence(uint64_t key, uint64_t n, uint16_t *ids)
{
    static const char *const who[] = {"the cat", "a dog", "my friend", "the old man"};
    static const char *const does[] = {" sees ", " likes ", " wants ", " finds "};
    static const char *const what[] = {"milk", "the house", "a red apple", "water"};
    char text[64];
    int len = snprintf(text, sizeof text, "%s%s%s. ", who[rng_u64(key, 3 * n) % 4],
                       does[rng_u64(key, 3 * n + 1) % 4], what[rng_u64(key, 3 * n + 2) % 4]);

    for (int i = 0; i < len; i++)
        ids[i] = (unsigned char)text[i];
    return len;
}

void training_write_shard(const char *path, uint64_t seed, int documents)
{
    struct shard_meta meta = {.vocab = 257,
                              .eot = 256,
                              .tokenizer = "bytes",
                              .source = "test",
                              .license = "none",
                              .split = "train"};
    struct err err = ERR_INIT;
    struct shard_writer *w = shard_create(path, &meta, &err);

    assert_non_null(w);
    for (int d = 0; d < documents; d++) {
        uint16_t ids[512];
        int n = 0;

        for (int i = 0; i < 5; i++)
            n += sentence(rng_key(seed, "text"), (uint64_t)(5 * d + i), ids + n);
        assert_int_equal(shard_add(w, ids, n, n, &err), 0);
    }
    assert_int_equal(shard_commit(w, &err), 0);
}

struct spec training_spec(void)
{
    struct spec s = tiny_spec();

    s.model.d_model = 32;
    s.model.n_layers = 2;
    s.model.head_dim = 8;
    s.model.lane[LANE_FFN][0] = 64;
    s.model.lane[LANE_FFN][1] = 48;
    s.model.lane[LANE_HEADS][0] = s.model.lane[LANE_HEADS][1] = 4;
    s.model.lane[LANE_KV][0] = s.model.lane[LANE_KV][1] = 2;
    s.model.lane[LANE_REUSE][1] = 1;
    s.model.qk_norm = QK_HEAD;
    s.model.vocab = 257;
    s.model.vocab_pad = 64;
    s.train.seq_len = 32;
    s.train.micro_batch_size = 4;
    s.train.global_batch_size = 8;
    s.train.max_steps = 60;
    s.train.threads = 1;
    s.optim.warmup_steps = 5;
    s.eval.interval = 20;
    s.eval.max_tokens = 0;
    s.save.interval = 25;
    snprintf(s.data.train, sizeof s.data.train, "%s/train.bin", t_dir());
    snprintf(s.data.val, sizeof s.data.val, "%s/val.bin", t_dir());
    return s;
}

int training_write_data(void **state)
{
    (void)state;
    training_write_shard(t_path("train.bin"), 1, 400);
    training_write_shard(t_path("val.bin"), 2, 20);
    return 0;
}

// ---- one run ------------------------------------------------------------------------------------

void training_start(struct training *r, const char *name, const struct spec *s)
{
    struct err err = ERR_INIT;
    char path[300];

    memset(r, 0, sizeof *r);
    snprintf(r->dir, sizeof r->dir, "%s/%s", t_dir(), name);
    assert_int_equal(file_mkdirs(r->dir, 0700, &err), 0);
    snprintf(path, sizeof path, "%s/metrics.jsonl.gz", r->dir);
    r->log = runlog_open(path, &err);
    assert_non_null(r->log);
    r->t = trainer_new(r->dir, s, "cpu", r->log, NULL, NULL);
    run_status_init(&r->st);
    assert_int_equal(trainer_start(r->t, &err), 0);
}

const struct run_status *training_status(struct training *r)
{
    trainer_status(r->t, &r->st);
    return &r->st;
}

static void keep_line(void *user, const json_t *line)
{
    json_array_append_new(user, json_deep_copy(line));
}

void training_end(struct training *r)
{
    struct runlog_reader reader;
    struct err err = ERR_INIT;
    char path[300];

    t_wait(trainer_ended(r->t), 60);
    training_status(r);
    trainer_free(r->t);
    if (runlog_close(r->log, &err) < 0)
        fail_msg("runlog: %s", err.text);
    r->lines = json_array();
    snprintf(path, sizeof path, "%s/metrics.jsonl.gz", r->dir);
    runlog_reader_init(&reader, path);
    assert_true(runlog_poll(&reader, keep_line, r->lines, NULL, &err) > 0);
    runlog_reader_release(&reader);
}

void training_release(struct training *r)
{
    json_decref(r->lines);
}

const json_t *training_record(const struct training *r, int64_t step, const char *name)
{
    for (size_t i = json_array_size(r->lines); i-- > 0;) {
        const json_t *line = json_array_get(r->lines, i);

        if (json_integer_value(json_object_get(line, "step")) == step &&
            json_object_get(line, name))
            return line;
    }
    return NULL;
}

double training_metric(const struct training *r, int64_t step, const char *name)
{
    const json_t *v = json_object_get(training_record(r, step, name), name);

    return json_is_number(v) ? json_number_value(v) : NAN;
}

const char *training_event(const struct training *r, const char *event)
{
    const char *text = NULL;
    json_t *line;
    size_t i;

    json_array_foreach(r->lines, i, line)
    {
        const char *e = json_string_value(json_object_get(line, "event"));

        if (e && !strcmp(e, event))
            text = json_string_value(json_object_get(line, "text"));
    }
    return text;
}

void training_assert_contains(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" does not contain \"%s\"", text ? text : "(none)", part);
}
