// Generators of per-layer values and the legal moves of the drawing.
// Source: layer-wise scaling, arXiv 2509.06518 §3 with its released code's rounding; OpenELM.
#ifndef ENGINE_GEN_H
#define ENGINE_GEN_H

#include <stdbool.h>

#include "engine/err.h"
#include "engine/spec.h"

// "Make divisible": v to a multiple of m, round half up, never below m nor (as far as 0.9 v).
//   if v < m: m;  t = floor((v + m/2)/m)*m;  t <= 0.9 v ? t + m : t
int gen_mkdiv(double v, int m);

// Multipliers of n layers before rounding to widths: two-point shapes are linear in i/(n-1) and
// rounded to two decimals; crown is piecewise linear through three knots without rounding
// (even n: knots 0, n/2-1, n/2, n-1 with start, mid, mid, start; odd n: 0, ceil(n/2)-1, n-1).
// uniform uses points[0]. `frame` and its value overwrite both ends afterwards.
void gen_multipliers(const struct lane_source *src, const struct frame *frame, double frame_value,
                     int n, double *out);

// Fills lane[lane] of m from its source (LANE_LIST and LANE_NUMBER are left alone), with
//   ffn_width = mkdiv(beta * d_model, ffn_step)
//   n_heads   = mkdiv(alpha * d_model, head_step * head_dim) / head_dim
// and LANE_KV from kv_ratio when one is set. Fails when a result is illegal.
int gen_apply(struct model_spec *m, enum lane lane, struct err *err);

// Moves one layer by `steps` legal steps (ffn_step, head_step, 1 for reuse). Heads carry their kv
// heads along when the layer's ratio is what spec_kv_ratio says. Clamps at the smallest legal
// value; returns false and writes the reason when nothing can move.
bool gen_step(struct model_spec *m, enum lane lane, int layer, int steps, char *why,
              size_t why_size);

// Sets one layer to the legal value nearest to v.
bool gen_set(struct model_spec *m, enum lane lane, int layer, double v, char *why, size_t why_size);

#endif
