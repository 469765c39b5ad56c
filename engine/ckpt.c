#include "engine/ckpt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/profile.h"

enum { MAX_MANIFEST = 1 << 20, READ_CHUNK = 1 << 20 };

static const char manifest_name[] = "MANIFEST.json";

// What a checkpoint must hold before it counts as one.
static const char *const required[] = {"model.safetensors", "train_state.safetensors",
                                       "profile.yaml", "config.json"};
enum { N_REQUIRED = sizeof required / sizeof required[0] };

// ---- files and their checksums ------------------------------------------------------------------

struct sum {
    int64_t bytes;
    uint32_t crc;
};

static int sum_file(const char *path, bool sync, struct sum *out, struct err *err)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    unsigned char *chunk = xmalloc(READ_CHUNK);
    ssize_t n = -1;

    *out = (struct sum){.crc = (uint32_t)crc32(0, NULL, 0)};
    while (fd >= 0 && (n = read(fd, chunk, READ_CHUNK)) > 0) {
        out->crc = (uint32_t)crc32(out->crc, chunk, (uInt)n);
        out->bytes += n;
    }
    if (n == 0 && sync && fsync(fd) < 0)
        n = -1;
    if (n < 0)
        err_sys(err, "cannot read '%s'", path);
    free(chunk);
    if (fd >= 0)
        close(fd);
    return n < 0 ? -1 : 0;
}

static json_t *sum_to_json(const struct sum *s)
{
    char hex[16];

    snprintf(hex, sizeof hex, "%08" PRIx32, s->crc);
    return json_pack("{s:I, s:s}", "bytes", (json_int_t)s->bytes, "crc32", hex);
}

static bool is_plain_name(const char *name)
{
    return name[0] && name[0] != '.' && !strchr(name, '/');
}

// Sums and syncs every file of dir.
static int build_manifest(const char *dir, int64_t step, json_t **out, struct err *err)
{
    json_t *files = json_object();
    DIR *d = opendir(dir);
    struct dirent *e;
    int rc = d ? 0 : err_sys(err, "cannot open '%s'", dir);

    while (rc == 0 && (e = readdir(d))) {
        char *path = xasprintf("%s/%s", dir, e->d_name);
        struct sum s;

        if (is_plain_name(e->d_name) && strcmp(e->d_name, manifest_name) &&
            (rc = sum_file(path, true, &s, err)) == 0)
            json_object_set_new(files, e->d_name, sum_to_json(&s));
        free(path);
    }
    if (d)
        closedir(d);
    for (int i = 0; rc == 0 && i < N_REQUIRED; i++)
        if (!json_object_get(files, required[i]))
            rc = err_set(err, "the checkpoint in '%s' has no %s", dir, required[i]);
    *out = json_pack("{s:i, s:I, s:o}", "v", 1, "step", (json_int_t)step, "files", files);
    return rc;
}

// ---- config.json --------------------------------------------------------------------------------

static json_t *lane_to_json(const struct model_spec *m, enum lane lane)
{
    json_t *a = json_array();

    for (int i = 0; i < m->n_layers; i++)
        json_array_append_new(a, json_integer(m->lane[lane][i]));
    return a;
}

static int lane_max(const struct model_spec *m, enum lane lane)
{
    int max = 0;

    for (int i = 0; i < m->n_layers; i++)
        if (m->lane[lane][i] > max)
            max = m->lane[lane][i];
    return max;
}

// The layers in the order in which they run, repetitions included.
static json_t *layer_map(const struct model_spec *m)
{
    json_t *a = json_array();

    for (int loop = 0; loop < m->block_loops; loop++)
        for (int i = 0; i < m->n_layers; i++)
            for (int r = 0; r < m->lane[LANE_REUSE][i]; r++)
                json_array_append_new(a, json_integer(i));
    return a;
}

static json_t *per_layer_config(const struct model_spec *m)
{
    json_t *all = json_object();

    for (int i = 0; i < m->n_layers; i++) {
        char key[16];

        snprintf(key, sizeof key, "%d", i);
        json_object_set_new(all, key,
                            json_pack("{s:i, s:i, s:i}", "num_attention_heads",
                                      m->lane[LANE_HEADS][i], "num_key_value_heads",
                                      m->lane[LANE_KV][i], "intermediate_size",
                                      m->lane[LANE_FFN][i]));
    }
    return all;
}

static void add_sizes(json_t *j, const struct model_spec *m, int seq_len)
{
    const struct {
        const char *key;
        int value;
    } sizes[] = {
        {"hidden_size", m->d_model},
        {"num_hidden_layers", m->n_layers},
        {"num_attention_heads", lane_max(m, LANE_HEADS)},
        {"num_key_value_heads", lane_max(m, LANE_KV)},
        {"head_dim", m->head_dim},
        {"intermediate_size", lane_max(m, LANE_FFN)},
        {"vocab_size", spec_padded_vocab(m)},
        {"max_position_embeddings", seq_len},
    };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        json_object_set_new(j, sizes[i].key, json_integer(sizes[i].value));
    json_object_set_new(j, "num_attention_heads_per_layer", lane_to_json(m, LANE_HEADS));
    json_object_set_new(j, "num_key_value_heads_per_layer", lane_to_json(m, LANE_KV));
    json_object_set_new(j, "intermediate_size_per_layer", lane_to_json(m, LANE_FFN));
    json_object_set_new(j, "layer_map", layer_map(m));
    json_object_set_new(j, "per_layer_config", per_layer_config(m));
}

static void add_kinds(json_t *j, const struct model_spec *m)
{
    static const char *const act[] = {"silu", "gelu", "gelu_pytorch_tanh"};
    static const char *const place[] = {"pre", "reordered", "sandwich"};
    static const char *const qk[] = {"none", "full", "head"};
    static const char *const pos[] = {"rope", "none", "learned", "alibi"};
    static const char *const rope[] = {"half", "interleaved"};

    json_object_set_new(j, "hidden_act", json_string(act[m->act]));
    json_object_set_new(j, "mlp_gated", json_boolean(m->act == ACT_SWIGLU));
    json_object_set_new(j, "norm_type", json_string(m->norm == NORM_RMS ? "rms" : "layer"));
    json_object_set_new(j, m->norm == NORM_RMS ? "rms_norm_eps" : "layer_norm_eps",
                        json_real(m->norm_eps));
    json_object_set_new(j, "norm_place", json_string(place[m->norm_place]));
    json_object_set_new(j, "embed_norm", json_boolean(m->input_norm));
    json_object_set_new(j, "qk_norm", json_string(qk[m->qk_norm]));
    json_object_set_new(j, "position_embedding_type", json_string(pos[m->pos]));
    json_object_set_new(j, "rope_theta", json_real(m->rope_theta));
    json_object_set_new(j, "rope_layout", json_string(rope[m->rope_layout]));
    json_object_set_new(j, "attention_bias", json_boolean(m->bias));
    json_object_set_new(j, "mlp_bias", json_boolean(m->bias));
    json_object_set_new(j, "tie_word_embeddings", json_boolean(m->tie_embeddings));
    json_object_set_new(j, "initializer_range", json_real(m->init_std));
}

// What the hub has no name for: repetitions beyond layer_map, and gates.
static void add_passes(json_t *j, const struct spec *spec)
{
    static const char *const inject[] = {"none", "add"};
    static const char *const attn[] = {"key", "query_noop", "off", "hard"};
    const struct model_spec *m = &spec->model;

    json_object_set_new(j, "block_loops", json_integer(m->block_loops));
    json_object_set_new(j, "block_inject", json_string(inject[m->block_inject]));
    json_object_set_new(j, "reuse_inject", json_string(inject[m->reuse_inject]));
    json_object_set_new(j, "num_gates", json_integer(spec_gate_count(spec)));
    if (!spec->gate.enabled)
        return;
    json_object_set_new(j, "gate_attention", json_string(attn[spec->gate.attn]));
    json_object_set_new(j, "gate_eps", json_real(spec->gate.eps));
}

json_t *ckpt_config(const struct spec *spec)
{
    json_t *j = json_pack("{s:s, s:[s], s:s}", "model_type", "lathe", "architectures",
                          "LatheForCausalLM", "torch_dtype", "float32");

    add_sizes(j, &spec->model, spec->train.seq_len);
    add_kinds(j, &spec->model);
    add_passes(j, spec);
    return j;
}

// ---- writing ------------------------------------------------------------------------------------

static char *step_path(const char *run_dir, int64_t step, const char *suffix)
{
    return xasprintf("%s/ckpt/%" PRId64 "%s", run_dir, step, suffix);
}

int ckpt_begin(const char *run_dir, int64_t step, char *dir, size_t dir_size, struct err *err)
{
    char *parent = xasprintf("%s/ckpt", run_dir), *tmp = step_path(run_dir, step, ".tmp");
    int rc = file_mkdirs(parent, 0700, err);

    if (rc == 0)
        rc = file_remove_tree(tmp, err); // left by a crash
    if (rc == 0 && mkdir(tmp, 0700) < 0)
        rc = err_sys(err, "cannot make directory '%s'", tmp);
    if (rc == 0 && (size_t)snprintf(dir, dir_size, "%s", tmp) >= dir_size)
        rc = err_set(err, "the path '%s' is too long", tmp);
    free(parent);
    free(tmp);
    return rc;
}

static int write_text(const char *dir, const char *name, char *text, struct err *err)
{
    char *path = xasprintf("%s/%s", dir, name);
    int rc = file_write_atomic(path, text, strlen(text), err);

    free(path);
    free(text);
    return rc;
}

static int write_json(const char *dir, const char *name, json_t *j, struct err *err)
{
    char *text = json_dumps(j, JSON_INDENT(2));

    BUG_IF(!text);
    json_decref(j);
    return write_text(dir, name, text, err);
}

static int finish_files(const char *dir, int64_t step, const struct spec *spec, struct err *err)
{
    json_t *manifest = NULL;
    char *yaml = profile_to_yaml(spec, "resolved profile of this checkpoint");

    if (write_text(dir, "profile.yaml", yaml, err) < 0 ||
        write_json(dir, "config.json", ckpt_config(spec), err) < 0)
        return -1;
    if (build_manifest(dir, step, &manifest, err) < 0) {
        json_decref(manifest);
        return -1;
    }
    return write_json(dir, manifest_name, manifest, err);
}

// Puts tmp at its place. A checkpoint of the same step, from before a resume, is exchanged in one
// move, so that there is a complete one at every moment.
static int publish(const char *tmp, const char *final, struct err *err)
{
    if (rename(tmp, final) == 0)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return err_sys(err, "cannot rename '%s'", tmp);
    if (renameat2(AT_FDCWD, tmp, AT_FDCWD, final, RENAME_EXCHANGE) == 0)
        return file_remove_tree(tmp, err);
    // not every file system can exchange; older checkpoints cover the moment in between
    if (file_remove_tree(final, err) < 0)
        return -1;
    return rename(tmp, final) == 0 ? 0 : err_sys(err, "cannot rename '%s'", tmp);
}

// ---- the list of checkpoints --------------------------------------------------------------------

// -1 unless name is the decimal text of a step.
static int64_t parse_step(const char *name)
{
    size_t n = strspn(name, "0123456789");

    if (n == 0 || n > 18 || name[n] || (name[0] == '0' && n > 1))
        return -1;
    return strtoll(name, NULL, 10);
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x < y) - (x > y);
}

int ckpt_steps(const char *run_dir, int64_t **steps)
{
    char *path = xasprintf("%s/ckpt", run_dir);
    DIR *d = opendir(path);
    struct dirent *e;
    int n = 0, cap = 0;

    *steps = NULL;
    while (d && (e = readdir(d))) {
        int64_t step = parse_step(e->d_name);

        if (step < 0)
            continue;
        if (n == cap) {
            cap = cap ? cap * 2 : 16;
            *steps = xrealloc(*steps, (size_t)cap, sizeof **steps);
        }
        (*steps)[n++] = step;
    }
    if (d)
        closedir(d);
    if (n)
        qsort(*steps, (size_t)n, sizeof **steps, newest_first);
    free(path);
    return n;
}

// Keeps `step` and the keep-1 before it. Later steps stay: they were damaged, or the run would not
// have gone back before them. A checkpoint loses its manifest first, so that a half removed one is
// never taken for a good one.
static void prune(const char *run_dir, int64_t step, int keep)
{
    int64_t *steps;
    int n = ckpt_steps(run_dir, &steps), seen = 0;

    for (int i = 0; i < n; i++) {
        if (steps[i] > step || ++seen <= (keep < 1 ? 1 : keep))
            continue;

        char *dir = step_path(run_dir, steps[i], "");
        char *manifest = xasprintf("%s/%s", dir, manifest_name);

        unlink(manifest);
        file_remove_tree(dir, NULL);
        free(manifest);
        free(dir);
    }
    free(steps);
}

// Temporary directories of a crash.
static void remove_leftovers(const char *run_dir)
{
    char *path = xasprintf("%s/ckpt", run_dir);
    DIR *d = opendir(path);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        const char *dot = strchr(e->d_name, '.');

        if (dot && dot > e->d_name && !strcmp(dot, ".tmp")) {
            char *tmp = xasprintf("%s/%s", path, e->d_name);

            file_remove_tree(tmp, NULL);
            free(tmp);
        }
    }
    if (d)
        closedir(d);
    free(path);
}

int ckpt_commit(const char *run_dir, int64_t step, const struct spec *spec, int keep,
                struct err *err)
{
    char *tmp = step_path(run_dir, step, ".tmp"), *final = step_path(run_dir, step, "");
    char *parent = xasprintf("%s/ckpt", run_dir);
    int rc = finish_files(tmp, step, spec, err);

    if (rc == 0)
        rc = file_sync_dir(tmp, err);
    if (rc == 0)
        rc = publish(tmp, final, err);
    if (rc == 0)
        rc = file_sync_dir(parent, err);
    if (rc == 0) {
        prune(run_dir, step, keep);
        remove_leftovers(run_dir);
    }
    free(tmp);
    free(final);
    free(parent);
    return rc;
}

void ckpt_abort(const char *run_dir, int64_t step)
{
    char *tmp = step_path(run_dir, step, ".tmp");

    file_remove_tree(tmp, NULL);
    free(tmp);
}

// ---- checking -----------------------------------------------------------------------------------

static int check_file(const char *dir, const char *name, const json_t *entry, struct err *err)
{
    const char *hex = json_string_value(json_object_get(entry, "crc32"));
    json_int_t bytes = json_integer_value(json_object_get(entry, "bytes"));
    char *path = xasprintf("%s/%s", dir, name), have[16];
    struct stat st;
    struct sum s;
    int rc = 0;

    if (!is_plain_name(name) || !hex)
        rc = err_set(err, "%s is damaged", manifest_name);
    else if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        rc = err_set(err, "%s is missing", name);
    else if (st.st_size != bytes)
        rc = err_set(err, "%s has %lld bytes, not %lld", name, (long long)st.st_size,
                     (long long)bytes);
    else
        rc = sum_file(path, false, &s, err);
    if (rc == 0) {
        snprintf(have, sizeof have, "%08" PRIx32, s.crc);
        if (strcmp(have, hex))
            rc = err_set(err, "%s has the wrong checksum", name);
    }
    free(path);
    return rc;
}

static json_t *load_manifest(const char *dir, int64_t step)
{
    char *path = xasprintf("%s/%s", dir, manifest_name);
    struct buf text = {0};
    json_t *j = NULL;
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
        file_read(path, MAX_MANIFEST, &text, NULL) == 0)
        j = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    if (json_integer_value(json_object_get(j, "v")) != 1 ||
        json_integer_value(json_object_get(j, "step")) != step) {
        json_decref(j);
        j = NULL;
    }
    buf_release(&text);
    free(path);
    return j;
}

static int check_dir(const char *dir, int64_t step, struct err *err)
{
    json_t *manifest = load_manifest(dir, step), *files = json_object_get(manifest, "files");
    const char *name;
    json_t *entry;
    int rc = 0;

    if (!manifest)
        rc = err_set(err, "%s is missing or damaged", manifest_name);
    for (int i = 0; rc == 0 && i < N_REQUIRED; i++)
        if (!json_object_get(files, required[i]))
            rc = err_set(err, "%s does not list %s", manifest_name, required[i]);
    if (rc == 0) {
        json_object_foreach(files, name, entry)
        {
            if ((rc = check_file(dir, name, entry, err)) < 0)
                break;
        }
    }
    json_decref(manifest);
    return rc;
}

int64_t ckpt_latest(const char *run_dir, char *dir, size_t dir_size, char *skipped,
                    size_t skipped_size)
{
    struct buf text = {0};
    int64_t *steps, found = -1;
    int n = ckpt_steps(run_dir, &steps);

    for (int i = 0; i < n && found < 0; i++) {
        char *path = step_path(run_dir, steps[i], "");
        struct err err = ERR_INIT;

        if (strlen(path) >= dir_size)
            err_set(&err, "the path is too long");
        else if (check_dir(path, steps[i], &err) == 0)
            found = steps[i];
        if (found >= 0)
            strcpy(dir, path);
        else
            buf_fmt(&text, "%scheckpoint %" PRId64 ": %s", text.len ? "; " : "", steps[i],
                    err.text);
        free(path);
    }
    if (skipped && skipped_size)
        snprintf(skipped, skipped_size, "%s", text.data ? text.data : "");
    buf_release(&text);
    free(steps);
    return found;
}

static void list_text(const char *run_dir, struct buf *out)
{
    int64_t *steps;
    int n = ckpt_steps(run_dir, &steps);

    buf_str(out, n ? "there are those of steps" : "it has none");
    for (int i = n - 1; i >= 0; i--)
        buf_fmt(out, "%s %" PRId64, i == n - 1 ? "" : ",", steps[i]);
    free(steps);
}

static int64_t find_step(const char *run_dir, int64_t step, char *dir, size_t dir_size,
                         struct err *err)
{
    char *path = step_path(run_dir, step, "");
    struct err why = ERR_INIT;
    struct buf list = {0};

    list_text(run_dir, &list);
    if (!file_exists(path))
        err_set(err, "'%.200s' has no checkpoint of step %" PRId64 ", %.400s", run_dir, step,
                list.data);
    else if (strlen(path) >= dir_size)
        err_set(err, "the path '%.200s' is too long", path);
    else if (check_dir(path, step, &why) < 0)
        err_set(err, "checkpoint %" PRId64 " is damaged: %.400s", step, why.text);
    else
        strcpy(dir, path);
    if (dir[0] == '\0')
        step = -1;
    buf_release(&list);
    free(path);
    return step;
}

int64_t ckpt_find(const char *run_dir, int64_t step, char *dir, size_t dir_size, struct err *err)
{
    char skipped[512];

    dir[0] = '\0';
    if (step >= 0)
        return find_step(run_dir, step, dir, dir_size, err);
    step = ckpt_latest(run_dir, dir, dir_size, skipped, sizeof skipped);
    if (step < 0 && skipped[0])
        err_set(err, "'%.200s' has no good checkpoint: %.500s", run_dir, skipped);
    else if (step < 0)
        err_set(
            err,
            "'%.200s' has no checkpoint yet: the first is written after save.interval steps, or "
            "when asked for with: lathe checkpoint RUN",
            run_dir);
    return step;
}
