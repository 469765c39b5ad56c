// Generators of per-layer values and the legal moves of the drawing. Any thread, no allocation.
// Largest values come from the lanes' rows of the key table.
// Source: layer-wise scaling, arXiv 2509.06518 §3 with its released code's rounding; OpenELM.
#ifndef ENGINE_GEN_H
#define ENGINE_GEN_H

#include <stdbool.h>

#include "engine/err.h"
#include "engine/spec.h"

// "Make divisible": v to a multiple of m, round half up, never below m nor (as far as 0.9 v).
//   if v < m: m;  t = floor((v + m/2)/m)*m;  t <= 0.9 v ? t + m : t
// m >= 1; v beyond the range of int gives the largest multiple of m in it.
int gen_mkdiv(double v, int m);

// Points a generator takes ("points: […]"): 1 for uniform, 2 for vanilla, framed and reverse, 3 for
// crown, 0 for SHAPE_LIST and SHAPE_NUMBER, which are no generators.
int gen_points(enum shape shape);

// Multipliers of n layers before rounding to widths: two-point shapes are linear in i/(n-1) and
// rounded to two decimals; crown is piecewise linear through three knots without rounding
// (even n: knots 0, n/2-1, n/2, n-1 with start, mid, mid, start; odd n: 0, ceil(n/2)-1, n-1 with
// start, mid, end). uniform uses points[0]. Where knots fall together (n < 3) the ends win.
// The frame then overwrites the first and the last layer, for every shape alike:
//   literal: frame_value;  endpoint_max: the larger of the first and the last point;
//   profile_max: the largest multiplier of the profile.
// The names framed and reverse imply no frame.
void gen_multipliers(const struct lane_source *src, const struct frame *frame, double frame_value,
                     int n, double *out);

// Fills lane[lane] of m from its source (SHAPE_LIST and SHAPE_NUMBER are left alone), with
//   ffn_width = mkdiv(beta * d_model, ffn_step)
//   n_heads   = mkdiv(alpha * d_model, head_step * head_dim) / head_dim
// so that a generator gives every layer both; and LANE_KV from kv_ratio when one is set (after LANE_HEADS too). Fails when a result is illegal:
// a multiplier that is no positive number or too large, heads that the ratio does not divide;
// m is then unchanged.
int gen_apply(struct model_spec *m, enum lane lane, struct err *err);

// Moves one layer by `steps` legal steps: ffn_step, head_step, 1 for reuse, the next divisor of the
// query heads for kv heads. Values off the grid go to its next point in that direction. Clamps at
// the smallest and largest legal value; returns false and writes the reason when nothing can move.
//
// Heads carry their kv heads along when all layers share one whole ratio (spec_kv_ratio): the step
// is then a multiple of both head_step and the ratio. With mixed ratios the layer keeps its kv
// heads and the step is a multiple of both head_step and these.
// A lane that changed becomes SHAPE_LIST, since its generator no longer describes it.
// A layer never loses its attention or FFN by a step, nor gets one: where it has none the reason says
// that gen_set can give it one.
bool gen_step(struct model_spec *m, enum lane lane, int layer, int steps, char *why,
              size_t why_size);

// The legal values of a layer's FFN width or query heads: multiples of unit from unit to most.
void gen_grid(const struct model_spec *m, enum lane lane, int layer, int *unit, int *most);

// Sets one layer to the legal value nearest to v (the smaller one when two are equally near).
// Returns false with the reason when v is not a number or no legal value exists.
//
// Exactly 0 takes the FFN or the attention (query or kv heads) away, unless the layer would be left
// with neither; any other v leaves the least legal value at least. A positive v gives the layer an FFN
// or attention that it has not, the latter with the kv heads of the ratio that the other layers share,
// else as many as query heads. kv heads alone cannot: the query heads come first. A v below 0 leaves
// away what is.
bool gen_set(struct model_spec *m, enum lane lane, int layer, double v, char *why, size_t why_size);

#endif
