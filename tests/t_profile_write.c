// Profiles: writing YAML and JSON, the key help, and saving in place.
#include "tests/t.h"

#include <math.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/profile.h"
#include "engine/rng.h"

static const char minimal[] = "model:\n"
                              "  d_model: 128\n"
                              "  n_layers: 4\n"
                              "  ffn_width: 512\n"
                              "  n_heads: 4\n"
                              "  vocab: 257\n";

// All problems as they are printed, in a static buffer.
static const char *printed(const struct problems *p)
{
    static char text[65536];
    FILE *f = fmemopen(text, sizeof text, "w");

    problems_print(p, f);
    fclose(f);
    return text;
}

// Parses and expects success.
static struct spec good(const char *text)
{
    struct spec s;
    struct problems p = {0};

    if (profile_parse("p.yaml", text, strlen(text), NULL, 0, &s, &p) != 0)
        fail_msg("%s", printed(&p));
    problems_release(&p);
    return s;
}

// ---- writing ------------------------------------------------------------------------------------

static uint64_t key;
static uint64_t drawn;

static int draw(int n)
{
    return (int)(rng_u64(key, drawn++) % (uint64_t)n);
}

static double draw_double(double min, double max)
{
    return min + (max - min) * (double)(rng_u64(key, drawn++) >> 11) / 9007199254740992.;
}

static void draw_string(char *out, size_t size)
{
    static const char *const pieces[] = {"a",    "/", " ", "'",      "\"", "\\",     ": ", "#",
                                         "null", "1", "-", "\u00e9", "{",  "\u4e2d", "~",  "%"};
    out[0] = '\0';
    for (int n = draw(12); n > 0; n--)
        if (strlen(out) + 8 < size)
            strcat(out, pieces[draw(sizeof pieces / sizeof pieces[0])]);
}

static void draw_key(const struct spec_key *k, struct spec *s)
{
    void *v = (char *)s + k->offset;
    int choices = 0;

    switch (k->type) {
    case KEY_INT:
        *(int *)v = (int)draw_double(k->min, fmin(k->max, 4000));
        break;
    case KEY_COUNT:
        *(int64_t *)v = (int64_t)draw_double(k->min, 1e6);
        break;
    case KEY_FLOAT:
        *(double *)v = draw_double(k->min, k->max);
        break;
    case KEY_FLOATS:
        ((double *)v)[0] = draw_double(0, 1);
        ((double *)v)[1] = draw_double(0, 1);
        break;
    case KEY_BOOL:
        *(bool *)v = draw(2);
        break;
    case KEY_ENUM:
        while (k->choices[choices])
            choices++;
        choices = draw(choices);
        memcpy(v, &choices, sizeof choices);
        break;
    case KEY_STRING:
        draw_string(v, k->size);
        break;
    case KEY_BATCH:
    case KEY_LANE:
    case KEY_FRAME:
    case KEY_LAYERS:
        break;
    }
}

// Mirrored layers alike, as gates want them; one value for all where a norm is weighed.
static void draw_coefficients(struct spec *s, double *v)
{
    int L = s->model.n_layers;
    bool alike = s->gate.controller == CTRL_FIXED_L2 || draw(2);

    for (int i = 0; i < L; i++)
        v[i] = i && alike ? v[0] : draw_double(-1, 1);
    for (int i = 0; i < L; i++)
        v[L - 1 - i] = v[i];
}

static void draw_lanes(struct model_spec *m)
{
    m->n_layers = 1 + draw(12);
    m->ffn_step = 1 + draw(300);
    m->head_step = 1 + draw(6);
    for (int i = 0; i < m->n_layers; i++) {
        int kv = 1 + draw(4);

        m->lane[LANE_FFN][i] = m->ffn_step * (1 + draw(8));
        m->lane[LANE_HEADS][i] = m->head_step * kv * (1 + draw(3));
        m->lane[LANE_KV][i] = kv;
        m->lane[LANE_REUSE][i] = 1 + draw(3);
    }
}

static struct spec draw_spec(void)
{
    struct spec s;

    memset(&s, 0, sizeof s);
    for (int i = 0; i < spec_key_count; i++)
        draw_key(&spec_keys[i], &s);
    snprintf(s.name, sizeof s.name, "n%d.x-y", draw(1000));
    draw_lanes(&s.model);
    s.gate.enabled &= s.model.n_layers % 2 == 0;
    draw_coefficients(&s, s.gate.alpha);
    draw_coefficients(&s, s.gate.beta);
    s.model.head_dim = 2 * (1 + draw(64));
    s.model.frame = (struct frame){(enum frame_mode)draw(4), 0, 0};
    if (s.model.frame.mode == FRAME_LITERAL)
        s.model.frame.ffn = s.model.frame.heads = draw_double(0.01, 60);
    s.train.micro_batch_size = 1 + draw(16);
    s.train.global_batch_size = s.train.micro_batch_size * (1 + draw(9));
    if (draw(2))
        s.train.max_steps = 0, s.train.max_tokens = 1 + draw(1000000);
    else
        s.train.max_tokens = 0, s.train.max_steps = 1 + draw(1000000);
    s.optim.min_lr = s.optim.lr * draw_double(0, 1);
    return s;
}

static void assert_reads_as(const char *name, const char *text, const struct spec *want)
{
    struct spec got;
    struct problems p = {0};

    if (profile_parse(name, text, strlen(text), NULL, 0, &got, &p) != 0)
        fail_msg("%s\nfor\n%s", printed(&p), text);
    for (int i = 0; i < spec_key_count; i++)
        if (!spec_key_equal(&spec_keys[i], &got, want))
            fail_msg("%s differs in\n%s", spec_keys[i].path, text);
    problems_release(&p);
}

static void written_profiles_read_back_equal(void **state)
{
    (void)state;
    key = rng_key(1, "specs");
    drawn = 0;
    for (int i = 0; i < 500; i++) {
        struct spec s = draw_spec();
        char *text = profile_to_yaml(&s, "two\nlines");

        assert_reads_as("p.yaml", text, &s);
        free(text);
    }
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no '%s' in\n%s", part, text);
}

static void yaml_says_where_values_came_from(void **state)
{
    static const char *const set[] = {"optim.lr=1e-3", "train.max_steps=7"};
    struct spec s;
    struct problems p = {0};
    char *text;

    (void)state;
    t_write(t_path("origin_base.yaml"), profile_default_yaml);
    t_write(t_path("origin.yaml"), "extends: origin_base.yaml\nname: o\n");
    assert_int_equal(profile_load(t_path("origin.yaml"), set, 2, &s, &p), 0);
    problems_release(&p);
    text = profile_to_yaml(&s, "made by hand\n\nfor a test");
    assert_int_equal(
        strncmp(text, "# made by hand\n#\n# for a test\nname: o  # origin.yaml:2\n", 54), 0);
    assert_has(text, "  ffn_width: [384, 256, 384, 512, 512, 384, 256, 384]"
                     "  # crown [1, 4, 1], origin_base.yaml:8\n");
    assert_has(text, "  n_kv_heads: [2, 2, 2, 2, 2, 2, 2, 2]  # {ratio: 2}, origin_base.yaml:10\n");
    assert_has(text, "  frame: {ffn: 3, heads: 1}  # origin_base.yaml:13\n");
    assert_has(text, "  lr: 0.001  # --set 1\n");
    assert_has(text, "  max_steps: 7  # --set 2\n");
    assert_has(text, "  max_tokens: 0  # derived\n");
    assert_has(text, "  norm_eps: 1e-06  # default\n");
    free(text);
    snprintf(s.origin_file[0], sizeof s.origin_file[0], "x.yaml");
    text = profile_to_yaml(&s, "a \u2014 \x1b\xff\r\xc2\x85z");
    assert_has(text, "# a \u2014 ????z\n");
    assert_reads_as("p.yaml", text, &s);
    free(text);
    memset(s.origin, 0, sizeof s.origin);
    text = profile_to_yaml(&s, NULL);
    assert_has(text, "  lr: 0.001\n");
    free(text);
}

static void json_has_every_key(void **state)
{
    struct spec s = good(profile_default_yaml);
    json_t *root = profile_to_json(&s);
    json_t *model = json_object_get(root, "model");

    (void)state;
    for (int i = 0; i < spec_key_count; i++) {
        const char *dot = strchr(spec_keys[i].path, '.');
        char section[32];
        json_t *object = root;

        if (dot) {
            snprintf(section, sizeof section, "%.*s", (int)(dot - spec_keys[i].path),
                     spec_keys[i].path);
            object = json_object_get(root, section);
        }
        if (!json_object_get(object, dot ? dot + 1 : spec_keys[i].path))
            fail_msg("no %s", spec_keys[i].path);
    }
    assert_int_equal(json_integer_value(json_array_get(json_object_get(model, "ffn_width"), 3)),
                     512);
    assert_string_equal(json_string_value(json_object_get(model, "qk_norm")), "head");
    assert_true(json_is_true(json_object_get(model, "tie_embeddings")));
    json_decref(root);
}

static void help_names_every_key(void **state)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    (void)state;
    profile_print_keys(f);
    fclose(f);
    for (int i = 0; i < spec_key_count; i++)
        if (!strstr(text, spec_keys[i].path) || !strstr(text, spec_keys[i].help))
            fail_msg("no %s", spec_keys[i].path);
    assert_non_null(strstr(text, "model.norm                 rms             rms | layer\n"));
    free(text);
}

// ---- saving -------------------------------------------------------------------------------------

static struct spec load(const char *path)
{
    struct spec s;
    struct problems p = {0};

    if (profile_load(path, NULL, 0, &s, &p) != 0)
        fail_msg("%s", printed(&p));
    problems_release(&p);
    return s;
}

static void save(const char *path, const struct spec *s)
{
    struct err err = ERR_INIT;

    if (profile_save(path, s, &err) != 0)
        fail_msg("%s", err.text);
}

static void assert_file(const char *path, const char *want)
{
    struct buf b = {0};
    struct err err = ERR_INIT;

    assert_int_equal(file_read(path, 1 << 20, &b, &err), 0);
    assert_string_equal(b.data, want);
    buf_release(&b);
}

// Writes text to a file, changes layer 1 of the FFN lane to 768, saves, and compares the file.
static void expect_saved(const char *text, const char *want)
{
    const char *path = t_path("save.yaml");
    struct spec s;

    t_write(path, text);
    s = load(path);
    s.model.lane[LANE_FFN][1] = 768;
    save(path, &s);
    assert_file(path, want);
}

#define HEAD "# mine\nmodel: # the shape\n  d_model: 128   # width\n  n_layers: 4\n"
#define TAIL "  n_heads:   4  # heads\n\n  # padded\n  vocab: 257\n"

static void save_replaces_only_the_lane(void **state)
{
    (void)state;
    // a number, repeats and generators become flow lists
    expect_saved(HEAD "  ffn_width: 512 # w\n" TAIL,
                 HEAD "  ffn_width: [512, 768, 512, 512] # w\n" TAIL);
    expect_saved(HEAD "  ffn_width: [512 x4] # w\n" TAIL,
                 HEAD "  ffn_width: [512, 768, 512, 512] # w\n" TAIL);
    expect_saved(HEAD "  ffn_width: {shape: uniform, points: [4.0]}  # \u00e9\n" TAIL,
                 HEAD "  ffn_width: [512, 768, 512, 512]  # \u00e9\n" TAIL);
    expect_saved(HEAD "  ffn_width:\n    shape: uniform # s\n    points: 4.0  # p\n" TAIL,
                 HEAD "  ffn_width: [512, 768, 512, 512]  # p\n" TAIL);
    expect_saved(HEAD "  ffn_width: # why\n    shape: uniform\n    points:\n    - 4.0\n" TAIL,
                 HEAD "  ffn_width: # why\n    [512, 768, 512, 512]\n" TAIL);
    // a list with a number for each layer keeps its layout
    expect_saved(HEAD "  ffn_width: [512,  512,\n    512, 512]\n" TAIL,
                 HEAD "  ffn_width: [512,  768,\n    512, 512]\n" TAIL);
    expect_saved(HEAD "  ffn_width:\n  - 512 # a\n  - 512 # b\n  - 512\n  - 512\n" TAIL,
                 HEAD "  ffn_width:\n  - 512 # a\n  - 768 # b\n  - 512\n  - 512\n" TAIL);
    // characters of several bytes in front of the value
    expect_saved("# \u4e2d\u4e2d\u4e2d\n" HEAD "  ffn_width: 512\n" TAIL,
                 "# \u4e2d\u4e2d\u4e2d\n" HEAD "  ffn_width: [512, 768, 512, 512]\n" TAIL);
    expect_saved("model: {d_model: 128, n_layers: 4, ffn_width: 512, n_heads: 4, vocab: 9}\n",
                 "model: {d_model: 128, n_layers: 4, ffn_width: [512, 768, 512, 512], n_heads: 4, "
                 "vocab: 9}\n");
    // one of two uses of an anchor
    expect_saved("model:\n  d_model: &w 512\n  n_layers: 4\n  ffn_width: *w\n  n_heads: 4\n"
                 "  vocab: 9\n",
                 "model:\n  d_model: &w 512\n  n_layers: 4\n  ffn_width: [512, 768, 512, 512]\n"
                 "  n_heads: 4\n  vocab: 9\n");
}

static void save_without_changes_keeps_every_byte(void **state)
{
    const char *path = t_path("same.yaml");
    struct spec s;

    (void)state;
    t_write(path, profile_default_yaml);
    s = load(path);
    save(path, &s);
    assert_file(path, profile_default_yaml);
}

static void save_keeps_a_kv_ratio_that_holds(void **state)
{
    const char *path = t_path("kv.yaml");
    struct spec s;

    (void)state;
    t_write(path, HEAD "  ffn_width: 512\n  n_kv_heads: {ratio: 2}\n" TAIL);
    s = load(path);
    s.model.lane[LANE_HEADS][2] = 6;
    s.model.lane[LANE_KV][2] = 3;
    save(path, &s);
    assert_file(path, HEAD "  ffn_width: 512\n  n_kv_heads: {ratio: 2}\n"
                           "  n_heads:   [4, 4, 6, 4]  # heads\n\n  # padded\n  vocab: 257\n");
    s.model.lane[LANE_KV][2] = 6;
    save(path, &s);
    assert_file(path, HEAD "  ffn_width: 512\n  n_kv_heads: [2, 2, 6, 2]\n"
                           "  n_heads:   [4, 4, 6, 4]  # heads\n\n  # padded\n  vocab: 257\n"
                           "  head_step: 2\n");
}

static void save_changes_the_number_of_layers(void **state)
{
    const char *path = t_path("layers.yaml");
    struct spec s;

    (void)state;
    t_write(path, HEAD "  ffn_width: [512, 512, 256, 256]\n" TAIL);
    s = load(path);
    s.model.n_layers = 5;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        s.model.lane[lane][4] = s.model.lane[lane][3];
    save(path, &s);
    assert_file(path, "# mine\nmodel: # the shape\n  d_model: 128   # width\n  n_layers: 5\n"
                      "  ffn_width: [512, 512, 256, 256, 256]\n" TAIL);
}

static void save_adds_what_a_base_gives(void **state)
{
    const char *path = t_path("sub.yaml");
    struct spec s;

    (void)state;
    t_write(t_path("base2.yaml"), HEAD "  ffn_width: 512\n" TAIL);
    t_write(path, "extends: base2.yaml\n# smaller\nmodel:\n    # narrow\n    d_model: 64");
    s = load(path);
    s.model.lane[LANE_FFN][1] = 768;
    save(path, &s);
    assert_file(path, "extends: base2.yaml\n# smaller\nmodel:\n    # narrow\n    d_model: 64\n"
                      "    ffn_width: [512, 768, 512, 512]");
    t_write(path, "extends: base2.yaml\nname: x\n");
    s = load(path);
    s.model.lane[LANE_FFN][1] = 768;
    s.model.lane[LANE_REUSE][0] = 2;
    s.optim.lr = 0.5;
    save(path, &s);
    assert_file(path, "extends: base2.yaml\nname: x\nmodel:\n  ffn_width: [512, 768, 512, 512]\n"
                      "  reuse: [2, 1, 1, 1]\noptim:\n  lr: 0.5\n  min_lr: 3e-05\n");
}

static void save_makes_a_new_file(void **state)
{
    struct spec s = good(profile_default_yaml), back;
    struct err err = ERR_INIT;

    (void)state;
    save(t_path("new.yaml"), &s);
    back = load(t_path("new.yaml"));
    assert_true(spec_equal(&s, &back));
    assert_int_equal(profile_save(t_path("no/such/dir.yaml"), &s, &err), -1);
    s.model.lane[LANE_FFN][0] = 100;
    assert_int_equal(profile_save(t_path("new.yaml"), &s, &err), -1);
    assert_non_null(strstr(err.text, "not saved: model.ffn_width[0]: 100 in layer 0"));
    back = load(t_path("new.yaml"));
    assert_int_equal(back.model.lane[LANE_FFN][0], 384);
}

static void save_leaves_other_files_alone(void **state)
{
    struct spec s = good(minimal);
    struct err err = ERR_INIT;

    (void)state;
    t_write(t_path("notes.txt"), "dear diary: [\n");
    assert_int_equal(profile_save(t_path("notes.txt"), &s, &err), -1);
    assert_non_null(strstr(err.text, "not a valid profile"));
    assert_file(t_path("notes.txt"), "dear diary: [\n");
}

static void save_turns_any_profile_into_any_other(void **state)
{
    const char *path = t_path("any.yaml");

    (void)state;
    key = rng_key(2, "specs");
    drawn = 0;
    t_write(path, profile_default_yaml);
    for (int i = 0; i < 60; i++) {
        struct spec s = draw_spec(), back;

        if (i % 3 == 0)
            t_write(path, i % 2 ? profile_default_yaml : minimal);
        save(path, &s);
        back = load(path);
        assert_true(spec_equal(&s, &back));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_profiles_read_back_equal),
        cmocka_unit_test(yaml_says_where_values_came_from),
        cmocka_unit_test(json_has_every_key),
        cmocka_unit_test(help_names_every_key),
        cmocka_unit_test(save_replaces_only_the_lane),
        cmocka_unit_test(save_without_changes_keeps_every_byte),
        cmocka_unit_test(save_keeps_a_kv_ratio_that_holds),
        cmocka_unit_test(save_changes_the_number_of_layers),
        cmocka_unit_test(save_adds_what_a_base_gives),
        cmocka_unit_test(save_makes_a_new_file),
        cmocka_unit_test(save_leaves_other_files_alone),
        cmocka_unit_test(save_turns_any_profile_into_any_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
