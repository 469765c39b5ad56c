// From a document to the slots of the key table: sections, spellings of other tools, keys that this
// program knows but does not take, and everything else as an unknown key with the nearest one.
#include <stdlib.h>
#include <string.h>

#include "engine/profile_read.h"

const char *const section_names[] = {"model", "gate", "data", "train", "optim",
                                     "eval",  "log",  "save", NULL};

int section_find(const char *name)
{
    for (int i = 0; section_names[i]; i++)
        if (!strcmp(section_names[i], name))
            return i;
    return -1;
}

// Spellings of hub configs, litgpt, OLMo-core, torchtitan, axolotl and nanoGPT.
static const struct {
    const char *theirs, *ours;
} spellings[] = {
    {"hidden_size", "model.d_model"},
    {"n_embd", "model.d_model"},
    {"dim", "model.d_model"},
    {"num_hidden_layers", "model.n_layers"},
    {"n_layer", "model.n_layers"},
    {"num_attention_heads", "model.n_heads"},
    {"n_head", "model.n_heads"},
    {"num_key_value_heads", "model.n_kv_heads"},
    {"n_query_groups", "model.n_kv_heads"},
    {"head_size", "model.head_dim"},
    {"intermediate_size", "model.ffn_width"},
    {"hidden_dim", "model.ffn_width"},
    {"tie_word_embeddings", "model.tie_embeddings"},
    {"vocab_size", "model.vocab"},
    {"rms_norm_eps", "model.norm_eps"},
    {"layer_norm_epsilon", "model.norm_eps"},
    {"rope_base", "model.rope_theta"},
    {"initializer_range", "model.init_std"},
    {"max_seq_length", "train.seq_len"},
    {"sequence_length", "train.seq_len"},
    {"sequence_len", "train.seq_len"},
    {"max_position_embeddings", "train.seq_len"},
    {"block_size", "train.seq_len"},
    {"max_iters", "train.max_steps"},
    {"learning_rate", "optim.lr"},
    {"lr_scheduler", "optim.schedule"},
    {"lr_scheduler_type", "optim.schedule"},
    {"lr_warmup_steps", "optim.warmup_steps"},
    {"warmup_iters", "optim.warmup_steps"},
    {"adam_epsilon", "optim.eps"},
    {"max_grad_norm", "optim.max_norm"},
    {"grad_clip", "optim.max_norm"},
    {"eval_steps", "eval.interval"},
    {"eval_interval", "eval.interval"},
    {"logging_steps", "log.interval"},
    {"log_interval", "log.interval"},
    {"save_steps", "save.interval"},
};

// Keys and sections with a meaning that this program does not offer. `only` is the one value that
// says what it does anyway.
static const struct {
    const char *path, *only, *reason;
} refused[] = {
    {"match", NULL, "this program does not move profiles onto a budget"},
    {"studies", NULL, "a study is a file of its own, this is a profile"},
    {"model.layer_map", NULL, "repeated layers are written as counts in 'reuse'"},
    {"model.layers", NULL, "values of single layers are written in the lists of each key"},
    {"model.multiple_of", NULL, "rounding is given by 'ffn_step' and 'head_step'"},
    {"train.compute", "f32", "this program computes in f32"},
    {"train.master", "f32",
     "master weights are always f32; without them small updates are lost to rounding"},
    {"train.gradient_accumulation_steps", NULL,
     "it follows from global_batch_size / micro_batch_size"},
    {"data.val2", NULL, "this program evaluates on one validation set"},
    {"data.mask_documents", "false", "documents in a sequence see each other in this program"},
};

static bool is_null(const struct node *v)
{
    return v->kind == NODE_SCALAR && !v->is_quoted &&
           (!*v->text || !strcmp(v->text, "~") || !strcmp(v->text, "null"));
}

static bool refuse(struct reading *r, const char *path, const struct node *key,
                   const struct node *value)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const char *only = refused[i].only;

        if (strcmp(refused[i].path, path))
            continue;
        if (!only)
            reading_error(r, key, path, "not supported: %s", refused[i].reason);
        else if (value->kind != NODE_SCALAR || strcmp(value->text, only))
            reading_error(r, value, path, "only '%s' is possible: %s", only, refused[i].reason);
        return true;
    }
    return false;
}

static void assign(struct reading *r, const struct spec_key *k, const struct place *place,
                   int group)
{
    struct slot *slot = &r->slots[k - spec_keys];

    if (slot->value && slot->layer == r->n_layers) {
        reading_error(r, place->key, k->path, "given twice, first at line %d", slot->key->line);
        return;
    }
    if (is_null(place->value)) {
        reading_error(r, place->key, k->path, "has no value");
        slot->is_bad = true;
        return;
    }
    *slot = (struct slot){.key = place->key,
                          .value = place->value,
                          .start = place->start,
                          .end = place->end,
                          .layer = r->n_layers,
                          .group = group};
}

// A spelling of another tool, at the top level or in the section where we have it.
static const struct spec_key *find_spelling(const char *path)
{
    const char *dot = strchr(path, '.');
    const char *name = dot ? dot + 1 : path;

    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        const char *ours = spellings[i].ours;

        if (strcmp(spellings[i].theirs, name))
            continue;
        if (!dot || !strncmp(ours, path, (size_t)(dot - path + 1)))
            return spec_key_find(ours);
    }
    return NULL;
}

static void unknown(struct reading *r, const char *path, const struct node *key)
{
    const char *near = spec_key_nearest(path), *dot = near ? strchr(near, '.') : NULL;
    const char *name = strchr(path, '.') ? strchr(path, '.') + 1 : path;
    char q[QUOTE_SIZE];

    if (near && dot && strncmp(near, path, (size_t)(dot - near + 1)))
        reading_error(r, key, path, "unknown key '%s', did you mean '%s' in '%.*s:'?",
                      quote(q, name), dot + 1, (int)(dot - near), near);
    else if (near)
        reading_error(r, key, path, "unknown key '%s', did you mean '%s'?", quote(q, name),
                      dot ? dot + 1 : near);
    else
        reading_error(r, key, path, "unknown key '%s'", quote(q, name));
}

static void add_key(struct reading *r, const char *path, const struct place *place, int group)
{
    const struct spec_key *k = spec_key_find(path);

    if (!k && refuse(r, path, place->key, place->value))
        return;
    if (!k && (k = find_spelling(path)))
        problem_add(r->problems, SEV_NOTE, place->key->doc, place->key->line, place->key->col, path,
                    "read as '%s'", k->path);
    if (k)
        assign(r, k, place, group);
    else
        unknown(r, path, place->key);
}

static void add_section(struct reading *r, int section, const struct place *place, int group)
{
    const struct node *map = place->value;
    char path[QUOTE_SIZE + 16], q[QUOTE_SIZE];

    if (place->key->doc == r->top)
        r->section[section] = place->key;
    if (is_null(map))
        return;
    if (map->kind != NODE_MAP) {
        reading_error(r, map, section_names[section], "expected keys and values, such as '%s'",
                      section == 0 ? "d_model: 512" : "interval: 100");
        return;
    }
    for (int i = 0; i < map->n; i++) {
        snprintf(path, sizeof path, "%s.%s", section_names[section],
                 quote(q, map->items[i].key->text));
        add_key(r, path, &map->items[i], group);
    }
}

void slots_add(struct reading *r, const struct doc *doc, int group)
{
    const struct node *root = doc->root;
    char q[QUOTE_SIZE];

    r->n_layers++;
    if (root->kind != NODE_MAP) {
        reading_error(r, root, "", "expected keys and values, such as 'model:'");
        r->is_broken = true;
        return;
    }
    for (int i = 0; i < root->n; i++) {
        const struct place *place = &root->items[i];
        int section = section_find(place->key->text);

        if (section >= 0)
            add_section(r, section, place, group);
        else if (strcmp(place->key->text, "extends"))
            add_key(r, quote(q, place->key->text), place, group);
    }
}

void slots_set(struct reading *r, const struct doc *doc, struct node *key)
{
    struct place place = {.key = key, .value = doc->root};
    char q[QUOTE_SIZE];

    r->n_layers++;
    add_key(r, quote(q, key->text), &place, GROUP_SET);
}
