// One token after the other: each step keeps the keys and values of all positions, everything else
// exists for the rows of one call only.
#include "engine/model_impl.h"

#include "kernels/bug.h"

static void last_logits(struct model *m, float *logits)
{
    struct backend *be = m->be;

    model_logits_chunk(m, m->rows - 1, 1);
    be->op->cast_to_f32(be, m->s.last_logits, m->s.logits, m->V);
    be->op->download(be, logits, m->s.last_logits, m->V);
}

int model_decode(struct model *m, const int32_t *tokens, int n, float *logits, struct err *err)
{
    BUG_IF(m->use != MODEL_DECODE || n < 1 || m->past + n > m->T);
    m->abandoned = false;
    m->rows = n;
    m->be->op->upload_i32(m->be, m->tokens, tokens, n);
    model_forward(m);
    last_logits(m, logits);
    if (model_sync(m, err) < 0)
        return -1;
    if (m->abandoned)
        return 1;
    m->past += n;
    return 0;
}

int model_decoded(const struct model *m)
{
    return m->past;
}

void model_decode_from(struct model *m, int position)
{
    BUG_IF(position < 0 || position > m->past);
    m->past = position;
}
