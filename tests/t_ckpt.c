// safetensors files and checkpoint directories.
#include "tests/t.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/ckpt.h"
#include "engine/file.h"
#include "engine/profile.h"
#include "engine/safetensors.h"

// ---- safetensors --------------------------------------------------------------------------------

static const float numbers[6] = {1, -2.5f, 3e-30f, 4, 5, 6};

static void write_two(const char *path)
{
    struct st_tensor t[2] = {
        {.name = "z.weight", .n_dims = 2, .shape = {2, 2}, .size = 4, .data = numbers},
        {.name = "a.bias", .n_dims = 1, .shape = {2}, .size = 2, .data = numbers + 4},
    };
    json_t *meta = json_pack("{s:s}", "step", "17");

    assert_int_equal(safetensors_write(path, t, 2, meta, NULL), 0);
    json_decref(meta);
}

static void written_tensors_are_read_back(void **state)
{
    const char *path = t_path("two.safetensors");
    const struct st_tensor *z, *a;
    struct safetensors f;

    (void)state;
    write_two(path);
    assert_int_equal(safetensors_open(&f, path, NULL), 0);
    assert_int_equal(f.n, 2);
    z = safetensors_find(&f, "z.weight");
    a = safetensors_find(&f, "a.bias");
    assert_non_null(z);
    assert_non_null(a);
    assert_null(safetensors_find(&f, "nothing"));
    assert_int_equal(z->n_dims, 2);
    assert_int_equal(z->shape[1], 2);
    assert_memory_equal(z->data, numbers, 16);
    assert_memory_equal(a->data, numbers + 4, 8);
    assert_string_equal(json_string_value(json_object_get(f.metadata, "step")), "17");
    assert_string_equal(json_string_value(json_object_get(f.metadata, "format")), "pt");
    safetensors_close(&f);
}

// The bytes themselves, as any other reader of the format finds them.
static void the_file_has_the_layout_of_the_format(void **state)
{
    const char *path = t_path("layout.safetensors");
    struct buf b = {0};
    uint64_t n;
    json_t *h;

    (void)state;
    write_two(path);
    assert_int_equal(file_read(path, 1 << 20, &b, NULL), 0);
    memcpy(&n, b.data, 8);
    assert_int_equal(n % 8, 0);
    assert_int_equal(b.len, 8 + n + 24);
    h = json_loadb(b.data + 8, n, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(json_object_get(h, "a.bias"), "dtype")),
                        "F32");
    assert_memory_equal(b.data + 8 + n, numbers + 4, 8); // in the order of names
    assert_memory_equal(b.data + 16 + n, numbers, 16);
    json_decref(h);
    buf_release(&b);
}

static void write_raw(const char *path, const char *header, size_t data)
{
    uint64_t n = strlen(header);
    struct buf b = {0};

    buf_add(&b, &n, sizeof n);
    buf_str(&b, header);
    for (size_t i = 0; i < data; i++)
        buf_add(&b, "\0", 1);
    assert_int_equal(file_write_atomic(path, b.data, b.len, NULL), 0);
    buf_release(&b);
}

#define ENTRY(shape, begin, end)                                                                   \
    "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void every_broken_rule_is_named(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *says;
    } bad[] = {
        {"[]", 0, "start with '{'"},
        {" {}", 0, "start with '{'"},
        {"{\"a\":" ENTRY("[2]", 0, 8) ",\"a\":" ENTRY("[2]", 0, 8) "}", 8, "duplicate"},
        {"{\"a\":" ENTRY("[2]", 0, 8) "}", 4, "shorter than its header"},
        {"{\"a\":" ENTRY("[2]", 0, 8) "}", 12, "bytes follow"},
        {"{\"a\":" ENTRY("[2]", 4, 12) "}", 12, "gap"},
        {"{\"a\":" ENTRY("[2]", 0, 8) ",\"b\":" ENTRY("[2]", 4, 12) "}", 12, "overlaps"},
        {"{\"a\":" ENTRY("[2]", 0, 8) ",\"b\":" ENTRY("[2]", 12, 20) "}", 20, "gap"},
        {"{\"a\":" ENTRY("[3]", 0, 8) "}", 8, "does not match"},
        {"{\"a\":" ENTRY("[2]", 8, 0) "}", 8, "does not match"},
        {"{\"a\":" ENTRY("[-2]", 0, 8) "}", 8, "no size"},
        {"{\"a\":" ENTRY("[1.5]", 0, 8) "}", 8, "no size"},
        {"{\"a\":" ENTRY("7", 0, 8) "}", 8, "not a list"},
        {"{\"a\":" ENTRY("[1,1,1,1,2]", 0, 8) "}", 8, "dimensions"},
        {"{\"a\":" ENTRY("[4294967296,4294967296]", 0, 8) "}", 8, "too large"},
        {"{\"a\":" ENTRY("[4611686018427387904]", 0, 0) "}", 8, "does not match"},
        {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,8]}}", 8, "only F32"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "must have"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "pair"},
        {"{\"a\":3}", 8, "must have"},
        {"{\"__metadata__\":{\"x\":1}}", 0, "no string"},
        {"{\"__metadata__\":[]}", 0, "not an object"},
        {"{\"a\":", 0, "not a valid safetensors file"},
    };
    const char *path = t_path("bad.safetensors");
    struct safetensors f;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = ERR_INIT;

        write_raw(path, bad[i].header, bad[i].data);
        if (safetensors_open(&f, path, &err) == 0)
            fail_msg("accepted: %s", bad[i].header);
        if (!strstr(err.text, bad[i].says))
            fail_msg("%s: says '%s', not '%s'", bad[i].header, err.text, bad[i].says);
    }
    t_write(path, "short");
    assert_int_equal(safetensors_open(&f, path, NULL), -1);
    t_write(path, "\xff\xff\xff\xff\xff\xff\xff\x7f{}");
    assert_int_equal(safetensors_open(&f, path, NULL), -1);
    assert_int_equal(safetensors_open(&f, t_path("absent"), NULL), -1);
    assert_int_equal(safetensors_open(&f, t_dir(), NULL), -1);
}

static void legal_but_unusual_files_are_read(void **state)
{
    const char *path = t_path("unusual.safetensors");
    struct safetensors f;

    (void)state;
    // no padding: the data is not aligned; a scalar; an empty tensor; trailing spaces
    write_raw(path, "{\"s\":" ENTRY("[]", 0, 4) ",\"e\":" ENTRY("[0,5]", 4, 4) "}", 4);
    assert_int_equal(safetensors_open(&f, path, NULL), 0);
    assert_int_equal(safetensors_find(&f, "s")->size, 1);
    assert_near(safetensors_find(&f, "s")->data[0], 0, 0);
    assert_int_equal(safetensors_find(&f, "e")->size, 0);
    safetensors_close(&f);
    write_raw(path, "{}      ", 0);
    assert_int_equal(safetensors_open(&f, path, NULL), 0);
    assert_int_equal(f.n, 0);
    assert_null(safetensors_find(&f, "s"));
    safetensors_close(&f);
}

static void damaged_files_never_crash_the_reader(void **state)
{
    const char *path = t_path("fuzz.safetensors");
    struct buf whole = {0}, hurt = {0};
    int accepted = 0;
    volatile float sink;

    (void)state;
    write_two(path);
    assert_int_equal(file_read(path, 1 << 20, &whole, NULL), 0);
    srand(3);
    for (int round = 0; round < 3000; round++) {
        size_t keep = rand() % 4 ? whole.len : (size_t)rand() % (whole.len + 1);
        struct safetensors f;
        FILE *out;

        buf_reset(&hurt);
        buf_add(&hurt, whole.data, keep);
        for (int i = rand() % 4; i > 0 && keep; i--)
            hurt.data[(size_t)rand() % keep] =
                rand() % 2 ? "0189{}[],:\" -"[rand() % 13] : (char)rand();
        out = fopen(path, "wb");
        fwrite(hurt.data ? hurt.data : "", 1, hurt.len, out);
        fclose(out);
        if (safetensors_open(&f, path, NULL) < 0)
            continue;
        accepted++;
        for (int i = 0; i < f.n; i++) // every byte it offers must be readable
            for (int64_t k = 0; k < f.t[i].size; k++)
                sink = f.t[i].data[k];
        safetensors_close(&f);
    }
    (void)sink;
    assert_true(accepted > 100 && accepted < 3000); // both ways were taken
    buf_release(&whole);
    buf_release(&hurt);
}

// ---- checkpoints --------------------------------------------------------------------------------

static struct spec spec;

static void save(const char *run, int64_t step, int keep)
{
    struct err err = ERR_INIT;
    struct buf path = {0};
    char dir[600];

    if (ckpt_begin(run, step, dir, sizeof dir, &err) < 0)
        fail_msg("%s", err.text);
    buf_fmt(&path, "%s/model.safetensors", dir);
    write_two(path.data);
    buf_reset(&path);
    buf_fmt(&path, "%s/train_state.safetensors", dir);
    write_two(path.data);
    buf_release(&path);
    if (ckpt_commit(run, step, &spec, keep, &err) < 0)
        fail_msg("%s", err.text);
}

static const char *in_ckpt(const char *run, const char *rest)
{
    static char path[700];

    snprintf(path, sizeof path, "%s/ckpt/%s", run, rest);
    return path;
}

static int64_t latest(const char *run, char *skipped)
{
    char dir[600] = "";
    int64_t step = ckpt_latest(run, dir, sizeof dir, skipped, 512);

    if (step >= 0) {
        struct buf want = {0};

        buf_fmt(&want, "%s/ckpt/%lld", run, (long long)step);
        assert_string_equal(dir, want.data);
        buf_release(&want);
    }
    return step;
}

static void newest_checkpoints_are_kept(void **state)
{
    const char *run = t_path("keep");
    char skipped[512];

    (void)state;
    assert_int_equal(latest(run, skipped), -1);
    for (int step = 0; step <= 50; step += 10)
        save(run, step, 2);
    assert_int_equal(latest(run, skipped), 50);
    assert_string_equal(skipped, "");
    assert_true(file_exists(in_ckpt(run, "40/MANIFEST.json")));
    assert_false(file_exists(in_ckpt(run, "30")));
    assert_false(file_exists(in_ckpt(run, "50.tmp")));
    save(run, 50, 2); // the same step again, as after a resume
    assert_int_equal(latest(run, skipped), 50);
    assert_true(file_exists(in_ckpt(run, "40")));
    assert_false(file_exists(in_ckpt(run, "50.tmp")));
}

static void a_crash_in_the_middle_leaves_the_older_one(void **state)
{
    const char *run = t_path("crash");
    char dir[600], skipped[512];

    (void)state;
    save(run, 10, 3);
    assert_int_equal(ckpt_begin(run, 20, dir, sizeof dir, NULL), 0);
    write_two(in_ckpt(run, "20.tmp/model.safetensors"));
    assert_int_equal(latest(run, skipped), 10); // and here the process dies
    assert_int_equal(ckpt_begin(run, 20, dir, sizeof dir, NULL), 0);
    assert_false(file_exists(in_ckpt(run, "20.tmp/model.safetensors")));
    ckpt_abort(run, 20);
    assert_false(file_exists(dir));
    assert_int_equal(ckpt_begin(run, 30, dir, sizeof dir, NULL), 0);
    save(run, 40, 3); // cleans up
    assert_false(file_exists(dir));
    assert_int_equal(ckpt_begin(run, 50, dir, sizeof dir, NULL), 0);
    assert_int_equal(ckpt_commit(run, 50, &spec, 3, NULL), -1); // without weights it is none
    assert_int_equal(latest(run, skipped), 40);
}

static void flip_byte(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    int c;

    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
}

static void damaged_checkpoints_are_passed_over_by_name(void **state)
{
    const char *run = t_path("damaged");
    char skipped[512];

    (void)state;
    for (int step = 10; step <= 60; step += 10)
        save(run, step, 9);
    flip_byte(in_ckpt(run, "60/model.safetensors"), 190);
    assert_int_equal(truncate(in_ckpt(run, "50/train_state.safetensors"), 100), 0);
    assert_int_equal(unlink(in_ckpt(run, "40/config.json")), 0);
    assert_int_equal(truncate(in_ckpt(run, "30/MANIFEST.json"), 20), 0);
    assert_int_equal(mkdir(in_ckpt(run, "70"), 0700), 0);
    assert_int_equal(mkdir(in_ckpt(run, "junk"), 0700), 0);
    t_write(in_ckpt(run, "80"), "a file");
    assert_int_equal(latest(run, skipped), 20);
    assert_non_null(strstr(skipped, "checkpoint 60: model.safetensors has the wrong checksum"));
    assert_non_null(strstr(skipped, "checkpoint 50: train_state.safetensors has 100 bytes"));
    assert_non_null(strstr(skipped, "checkpoint 40: config.json is missing"));
    assert_non_null(strstr(skipped, "checkpoint 30: MANIFEST.json is missing or damaged"));
    assert_non_null(strstr(skipped, "checkpoint 70: "));
    // going on from 20 must not remove the new checkpoint in favour of the damaged ones
    save(run, 25, 1);
    assert_int_equal(latest(run, NULL), 25);
}

static void config_has_global_and_per_layer_sizes(void **state)
{
    const char *run = t_path("config");
    const struct model_spec *m = &spec.model;
    json_t *j, *heads, *ffn;
    int max = 0;

    (void)state;
    save(run, 1, 1);
    j = json_load_file(in_ckpt(run, "1/config.json"), 0, NULL);
    assert_non_null(j);
    assert_string_equal(json_string_value(json_object_get(j, "model_type")), "lathe");
    assert_int_equal(json_integer_value(json_object_get(j, "hidden_size")), m->d_model);
    assert_int_equal(json_integer_value(json_object_get(j, "num_hidden_layers")), m->n_layers);
    ffn = json_object_get(j, "intermediate_size_per_layer");
    heads = json_object_get(j, "num_attention_heads_per_layer");
    assert_int_equal(json_array_size(ffn), m->n_layers);
    assert_int_equal(json_array_size(heads), m->n_layers);
    for (int i = 0; i < m->n_layers; i++) {
        int f = (int)json_integer_value(json_array_get(ffn, (size_t)i));

        assert_int_equal(f, m->lane[LANE_FFN][i]);
        max = f > max ? f : max;
    }
    assert_int_equal(json_integer_value(json_object_get(j, "intermediate_size")), max);
    assert_int_equal(json_integer_value(json_object_get(j, "vocab_size")), spec_padded_vocab(m));
    assert_int_equal(json_array_size(json_object_get(j, "layer_map")), spec_reuse_total(m));
    json_decref(j);
}

static const char *config_text(const json_t *j, const char *key)
{
    return json_string_value(json_object_get(j, key));
}

static void config_tells_every_kind_of_model(void **state)
{
    struct spec s = spec;
    json_t *j, *map;

    (void)state;
    s.model.norm_place = PLACE_SANDWICH;
    s.model.pos = POS_ALIBI;
    s.model.block_loops = 3;
    s.model.block_inject = INJECT_NONE;
    s.model.reuse_inject = INJECT_ADD;
    s.gate.enabled = true;
    s.gate.attn = GATE_ATTN_HARD;
    j = ckpt_config(&s);
    assert_string_equal(config_text(j, "norm_place"), "sandwich");
    assert_string_equal(config_text(j, "position_embedding_type"), "alibi");
    assert_string_equal(config_text(j, "block_inject"), "none");
    assert_string_equal(config_text(j, "reuse_inject"), "add");
    assert_string_equal(config_text(j, "gate_attention"), "hard");
    map = json_object_get(j, "layer_map");
    assert_int_equal(json_array_size(map), 3 * s.model.n_layers);
    assert_int_equal(json_integer_value(json_array_get(map, (size_t)s.model.n_layers)), 0);
    json_decref(j);
}

static void found(const char *run, int64_t ask, int64_t step, const char *says)
{
    struct err err = ERR_INIT;
    char dir[600], want[800];

    assert_int_equal(ckpt_find(run, ask, dir, sizeof dir, &err), step);
    snprintf(want, sizeof want, "%s/ckpt/%lld", run, (long long)step);
    if (step >= 0)
        assert_string_equal(dir, want);
    else if (!strstr(err.text, says))
        fail_msg("says '%s', not '%s'", err.text, says);
}

static void a_step_or_the_newest_is_found_with_words(void **state)
{
    const char *run = t_path("find");

    (void)state;
    found(run, -1, -1, "no checkpoint yet");
    found(run, 10, -1, "no checkpoint of step 10, it has none");
    for (int step = 10; step <= 30; step += 10)
        save(run, step, 9);
    found(run, -1, 30, NULL);
    found(run, 10, 10, NULL);
    found(run, 15, -1, "no checkpoint of step 15, there are those of steps 10, 20, 30");
    flip_byte(in_ckpt(run, "30/model.safetensors"), 190);
    found(run, -1, 20, NULL);
    found(run, 30, -1, "checkpoint 30 is damaged: model.safetensors has the wrong checksum");
    flip_byte(in_ckpt(run, "20/model.safetensors"), 190);
    flip_byte(in_ckpt(run, "10/model.safetensors"), 190);
    found(run, -1, -1, "no good checkpoint: checkpoint 30: model.safetensors has the wrong");
}

static int load_spec(void **state)
{
    struct problems p = {0};
    int rc = profile_parse("default", profile_default_yaml, strlen(profile_default_yaml), NULL, 0,
                           &spec, &p);

    (void)state;
    problems_release(&p);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_tensors_are_read_back),
        cmocka_unit_test(the_file_has_the_layout_of_the_format),
        cmocka_unit_test(every_broken_rule_is_named),
        cmocka_unit_test(legal_but_unusual_files_are_read),
        cmocka_unit_test(damaged_files_never_crash_the_reader),
        cmocka_unit_test(newest_checkpoints_are_kept),
        cmocka_unit_test(a_crash_in_the_middle_leaves_the_older_one),
        cmocka_unit_test(damaged_checkpoints_are_passed_over_by_name),
        cmocka_unit_test(config_has_global_and_per_layer_sizes),
        cmocka_unit_test(config_tells_every_kind_of_model),
        cmocka_unit_test(a_step_or_the_newest_is_found_with_words),
    };

    return cmocka_run_group_tests(tests, load_spec, NULL);
}
