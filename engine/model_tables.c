// Tables that do not change while a model lives: angles of RoPE, slopes of ALiBi, positions.
#include <math.h>
#include <stdlib.h>

#include "engine/buf.h"
#include "engine/model_impl.h"

// angle(pos, j) = pos * theta^(-2j/D), positions from 0
static void fill_rope(struct model *m)
{
    int D = m->spec.model.head_dim, half = D / 2;
    double *cos_row = xcalloc((size_t)half + 1, sizeof *cos_row);
    double *sin_row = xcalloc((size_t)half + 1, sizeof *sin_row);

    for (int t = 0; t < m->T; t++) {
        for (int j = 0; j < half; j++) {
            double angle = t * pow(m->spec.model.rope_theta, -2.0 * j / D);

            cos_row[j] = cos(angle);
            sin_row[j] = sin(angle);
        }
        m->be->op->upload_f64(m->be, f32_at(m->be, m->cos, (int64_t)t * half), cos_row, half);
        m->be->op->upload_f64(m->be, f32_at(m->be, m->sin, (int64_t)t * half), sin_row, half);
    }
    free(cos_row);
    free(sin_row);
}

// Slope of head j = 0 .. H-1 (architectures.md §4.2): 2^(-8(j+1)/n) for the first n heads, n the
// largest power of two up to H; the others take every second slope of 2n heads.
static double alibi_slope(int j, int H)
{
    int n = 1;

    while (2 * n <= H)
        n *= 2;
    return j < n ? exp2(-8.0 * (j + 1) / n) : exp2(-8.0 * (2 * (j - n) + 1) / (2 * n));
}

static void fill_slopes(struct model *m)
{
    for (int i = 0; i < m->n_steps; i++) {
        const struct step *s = &m->steps[i];
        double *row = xcalloc((size_t)s->H + 1, sizeof *row);
        int64_t at = (int64_t)s->layer * model_most_heads(m);

        for (int j = 0; j < s->H; j++)
            row[j] = alibi_slope(j, s->H);
        if (s->loop == 0 && s->repeat == 0 && s->H > 0)
            m->be->op->upload_f64(m->be, f32_at(m->be, m->slopes, at), row, s->H);
        free(row);
    }
}

static void fill_positions(struct model *m)
{
    int32_t *pos = xcalloc((size_t)m->N, sizeof *pos);

    for (int64_t i = 0; i < m->N; i++)
        pos[i] = (int32_t)(i % m->T);
    m->be->op->upload_i32(m->be, m->positions, pos, m->N);
    free(pos);
}

void model_fill_tables(struct model *m)
{
    fill_positions(m);
    if (m->spec.model.pos == POS_ROPE)
        fill_rope(m);
    if (m->spec.model.pos == POS_ALIBI)
        fill_slopes(m);
}
