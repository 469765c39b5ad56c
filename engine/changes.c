#include "engine/changes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/optim.h"

enum { MAX_FILE = 1 << 20 };

const char *const change_key_names[CHANGE_KEYS] = {
    [CHANGE_LR] = "lr", [CHANGE_MAX_STEPS] = "max_steps", [CHANGE_MAX_TOKENS] = "max_tokens"};

void changes_release(struct changes *c)
{
    free(c->v);
    *c = (struct changes){0};
}

void changes_add(struct changes *c, const struct change *change)
{
    c->v = xrealloc(c->v, (size_t)c->n + 1, sizeof *c->v);
    c->v[c->n++] = *change;
}

// ---- what they mean -----------------------------------------------------------------------------

int64_t changes_end(const struct changes *c, int64_t end)
{
    for (int i = 0; i < c->n; i++)
        if (c->v[i].key != CHANGE_LR)
            end = c->v[i].end;
    return end;
}

double changes_peak(const struct changes *c, const struct optim_spec *s, int64_t n)
{
    const struct change *best = NULL;

    for (int i = 0; i < c->n; i++) {
        const struct change *it = &c->v[i];

        if (it->key == CHANGE_LR && it->at <= n && (!best || it->at >= best->at))
            best = it;
    }
    return best ? best->value : s->lr;
}

// One stretch of the decay: from `share` of it after update `from` to all of it at `end`.
struct stretch {
    int64_t from, end;
    double share;
};

static double share_at(const struct stretch *s, int64_t n)
{
    double way;

    if (n <= s->from || s->end <= s->from)
        return s->share;
    way = (double)(n - s->from) / (double)(s->end - s->from);
    return way >= 1 ? 1 : s->share + (1 - s->share) * way;
}

static double decay_share(const struct changes *c, int64_t warmup, int64_t end, int64_t n)
{
    struct stretch s = {warmup, end, 0};

    for (int i = 0; i < c->n; i++) {
        const struct change *it = &c->v[i];
        int64_t from = it->at - 1 > warmup ? it->at - 1 : warmup;

        if (it->key != CHANGE_LR && it->at <= n)
            s = (struct stretch){from, it->end, share_at(&s, from)};
    }
    return share_at(&s, n);
}

double changes_lr(const struct changes *c, const struct optim_spec *s, int64_t end, int64_t n)
{
    double peak = changes_peak(c, s, n);
    struct optim_spec scaled = *s;

    if (peak != s->lr) {
        scaled.lr = peak;
        scaled.min_lr = s->min_lr * (peak / s->lr);
    }
    if (n <= s->warmup_steps)
        return optim_lr(&scaled, n, end);
    return optim_decayed_lr(&scaled, decay_share(c, s->warmup_steps, end, n));
}

// ---- text and JSON ------------------------------------------------------------------------------

char *change_to_text(const struct change *c, char *out, size_t size)
{
    char old[UNIT_SIZE], now[UNIT_SIZE], end[UNIT_SIZE], at[UNIT_SIZE], steps[48] = "";

    unit_thousands(at, c->at);
    if (c->key == CHANGE_LR) {
        snprintf(out, size, "lr %.6g -> %.6g from step %s on", c->old, c->value, at);
        return out;
    }
    if (c->key == CHANGE_MAX_TOKENS)
        snprintf(steps, sizeof steps, " (step %s)", unit_thousands(end, c->end));
    snprintf(out, size, "%s %s -> %s%s, planned anew from step %s on", change_key_names[c->key],
             unit_thousands(old, (int64_t)c->old), unit_thousands(now, (int64_t)c->value), steps,
             at);
    return out;
}

static json_t *value_to_json(const struct change *c, double v)
{
    return c->key == CHANGE_LR ? json_real(v) : json_integer((json_int_t)v);
}

json_t *change_to_json(const struct change *c)
{
    json_t *o = json_pack("{s:s, s:o, s:o, s:I, s:I, s:f, s:s}", "key", change_key_names[c->key],
                          "old", value_to_json(c, c->old), "new", value_to_json(c, c->value), "at",
                          (json_int_t)c->at, "asked_step", (json_int_t)c->asked_step, "time",
                          c->time, "who", c->who);

    BUG_IF(!o); // who is UTF-8: the host saw to it
    if (c->key != CHANGE_LR)
        json_object_set_new(o, "end", json_integer((json_int_t)c->end));
    return o;
}

json_t *changes_to_json(const struct changes *c)
{
    json_t *list = json_array();

    for (int i = 0; i < c->n; i++)
        json_array_append_new(list, change_to_json(&c->v[i]));
    return list;
}

static int key_of(const char *name)
{
    for (int k = 0; name && k < CHANGE_KEYS; k++)
        if (!strcmp(name, change_key_names[k]))
            return k;
    return -1;
}

static int change_from_json(const json_t *o, struct change *c)
{
    int key = key_of(json_string_value(json_object_get(o, "key")));
    const char *who = json_string_value(json_object_get(o, "who"));
    const json_t *value = json_object_get(o, "new");

    if (key < 0 || !json_is_number(value) || !json_is_integer(json_object_get(o, "at")))
        return -1;
    *c = (struct change){
        .key = (enum change_key)key,
        .old = json_number_value(json_object_get(o, "old")),
        .value = json_number_value(value),
        .end = json_integer_value(json_object_get(o, "end")),
        .at = json_integer_value(json_object_get(o, "at")),
        .asked_step = json_integer_value(json_object_get(o, "asked_step")),
        .time = json_number_value(json_object_get(o, "time")),
    };
    if (who && strlen(who) < sizeof c->who)
        strcpy(c->who, who);
    return c->at >= 1 && c->value > 0 && (key == CHANGE_LR || c->end >= 1) ? 0 : -1;
}

int changes_from_json(const json_t *list, struct changes *c)
{
    struct change one;
    size_t i;
    json_t *o;

    changes_release(c);
    if (!json_is_array(list) || json_array_size(list) > MAX_CHANGES)
        return -1;
    json_array_foreach(list, i, o)
    {
        if (change_from_json(o, &one) < 0)
            return -1;
        changes_add(c, &one);
    }
    return 0;
}

// ---- the file -----------------------------------------------------------------------------------

int changes_read(const char *run_dir, struct changes *c, struct err *err)
{
    char *path = xasprintf("%s/changes.json", run_dir);
    struct buf text = {0};
    json_t *j = NULL;
    int rc = 1;

    changes_release(c);
    if (file_exists(path)) {
        rc = file_read(path, MAX_FILE, &text, err);
        if (rc == 0) {
            j = json_loadb(text.data ? text.data : "", text.len, JSON_REJECT_DUPLICATES, NULL);
            rc = changes_from_json(json_object_get(j, "changes"), c);
            if (rc < 0)
                err_set(err, "'%s' is damaged: put it back, or remove it to go on with the changes "
                             "that the checkpoint knows", path);
        }
    }
    json_decref(j);
    buf_release(&text);
    free(path);
    return rc;
}

int changes_write(const char *run_dir, const struct changes *c, struct err *err)
{
    json_t *j = json_pack("{s:i, s:o}", "v", 1, "changes", changes_to_json(c));
    char *text = json_dumps(j, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    char *path = xasprintf("%s/changes.json", run_dir);
    int rc;

    BUG_IF(!text);
    rc = file_write_atomic(path, text, strlen(text), err);
    free(path);
    free(text);
    json_decref(j);
    return rc;
}
