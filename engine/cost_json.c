#include <math.h>

#include "engine/cost.h"

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *layers(const struct cost *c)
{
    json_t *list = json_array();

    for (int i = 0; i < c->n_layers; i++)
        json_array_append_new(list, number(c->layer_s[i]));
    return list;
}

static json_t *memory(const struct cost *c)
{
    return json_pack("{s:I, s:I, s:o}", "bytes", (json_int_t)c->memory_bytes, "step_bytes",
                     (json_int_t)c->memory_step_bytes, "available_bytes",
                     c->memory_available < 0 ? json_null() : json_real(c->memory_available));
}

static json_t *calibration(const struct cost *c)
{
    return json_pack("{s:f, s:i, s:f, s:f, s:i, s:I, s:i, s:i, s:I}", "seconds", c->calibration_s,
                     "passes", c->passes, "spread", c->spread, "cores", c->cores, "layers",
                     c->slice_layers, "rows", (json_int_t)c->slice_rows, "seq_len",
                     c->slice_seq_len, "vocab", c->slice_vocab, "bytes",
                     (json_int_t)c->slice_bytes);
}

json_t *cost_to_json(const struct cost *c)
{
    json_t *j =
        json_pack("{s:s, s:s, s:i, s:b, s:s, s:o}", "backend", c->backend, "library", c->library,
                  "threads", c->threads, "fits", c->fits, "why", c->why, "memory", memory(c));

    if (!c->fits)
        return j;
    json_object_set_new(j, "tokens_per_s", number(c->tokens_per_s));
    json_object_set_new(j, "seconds_per_step", number(c->seconds_per_step));
    json_object_set_new(j, "parts",
                        json_pack("{s:f, s:f, s:f, s:f}", "embed_s", c->embed_s, "layers_s",
                                  c->layers_s, "head_s", c->head_s, "optim_s", c->optim_s));
    json_object_set_new(j, "layer_s", layers(c));
    json_object_set_new(j, "steps", json_integer(c->steps));
    json_object_set_new(j, "tokens", json_integer(c->tokens));
    json_object_set_new(j, "evaluations", json_integer(c->evaluations));
    json_object_set_new(j, "seconds_per_eval", number(c->seconds_per_eval));
    json_object_set_new(j, "seconds_total", number(c->seconds_total));
    json_object_set_new(j, "within", json_real(COST_WITHIN));
    json_object_set_new(j, "calibration", calibration(c));
    return j;
}
