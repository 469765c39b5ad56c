// Tiled causal attention, included by cpu_vec_body.h once per instruction set.
//
// Forward keeps, for up to ATTN_QUERIES query rows of one head, the running maximum m, the sum l and
// the unnormalised output O, and walks over key tiles (online softmax, as FlashAttention). Backward
// walks over key tiles of one key/value group and recomputes the probabilities from lse. Tiles that
// the causal mask hides are skipped. Tiles are copied and have rows
// of Dp = D rounded up to whole vectors: read in place, rows a multiple of 1 KiB apart share a few
// cache sets and evict each other.
#ifdef VEC_WIDTH

enum {
    TQ = 32,              // query rows of a tile
    TK = 64,              // keys of a tile
    MR = W == 16 ? 8 : 4, // rows of the register tile
};

VEC_INLINE int round_up(int n)
{
    return (n + W - 1) / W * W;
}

// ---- C (M,N) = or += A (M,K) . B (K,N) -------------------------------------------------------
// A element (i,k) at a[i*ra + k*ca], so that a transposed A costs nothing; rows of B and C are
// contiguous. M is a multiple of MR, N of W.

struct left {
    const float *a;
    int64_t ra, ca;
};

struct right {
    const float *b;
    int64_t ldb;
};

struct size {
    int M, N, K;
};

// One register tile: MR rows, two vectors (or one, where the second would be beyond N).
#if VEC_WIDTH == 16
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#else
#define ROWS(X) X(0) X(1) X(2) X(3)
#endif

VEC_INLINE void tile_wide(float *c, int64_t ldc, const float *a, struct left l, const float *b,
                          int64_t ldb, int K, bool acc)
{
#define DECLARE(r) vf x##r = zero(), y##r = zero();
#define STEP(r)                                                                                    \
    {                                                                                              \
        vf s = splat(a[r * l.ra]);                                                                 \
        x##r = fma_(s, b0, x##r);                                                                  \
        y##r = fma_(s, b1, y##r);                                                                  \
    }
#define ADD_OLD(r)                                                                                 \
    x##r += load(c + r * ldc);                                                                     \
    y##r += load(c + r * ldc + W);
#define WRITE(r)                                                                                   \
    store(c + r * ldc, x##r);                                                                      \
    store(c + r * ldc + W, y##r);
    ROWS(DECLARE)
    for (int k = 0; k < K; k++) {
        vf b0 = load(b), b1 = load(b + W);

        ROWS(STEP)
        a += l.ca;
        b += ldb;
    }
    if (acc) {
        ROWS(ADD_OLD)
    }
    ROWS(WRITE)
#undef DECLARE
#undef STEP
#undef ADD_OLD
#undef WRITE
}

VEC_INLINE void tile_narrow(float *c, int64_t ldc, const float *a, struct left l, const float *b,
                            int64_t ldb, int K, bool acc)
{
#define DECLARE(r) vf x##r = zero();
#define STEP(r)    x##r = fma_(splat(a[r * l.ra]), b0, x##r);
#define ADD_OLD(r) x##r += load(c + r * ldc);
#define WRITE(r)   store(c + r * ldc, x##r);
    ROWS(DECLARE)
    for (int k = 0; k < K; k++) {
        vf b0 = load(b);

        ROWS(STEP)
        a += l.ca;
        b += ldb;
    }
    if (acc) {
        ROWS(ADD_OLD)
    }
    ROWS(WRITE)
#undef DECLARE
#undef STEP
#undef ADD_OLD
#undef WRITE
}

static void multiply(float *c, int64_t ldc, struct left l, struct right r, struct size d, bool acc)
{
    int j = 0;

    for (; j + 2 * W <= d.N; j += 2 * W)
        for (int i = 0; i < d.M; i += MR)
            tile_wide(c + i * ldc + j, ldc, l.a + i * l.ra, l, r.b + j, r.ldb, d.K, acc);
    for (; j < d.N; j += W)
        for (int i = 0; i < d.M; i += MR)
            tile_narrow(c + i * ldc + j, ldc, l.a + i * l.ra, l, r.b + j, r.ldb, d.K, acc);
}

// ---- moving tiles ----------------------------------------------------------------------------

// out (rows_padded, Dp) = factor * in (rows, D), zeros elsewhere
static void copy_rows(float *out, const float *in, int64_t ld, int rows, int rows_padded, int D,
                      float factor)
{
    int Dp = round_up(D);
    vf f = splat(factor);

    for (int r = 0; r < rows; r++) {
        const float *x = in + r * ld;
        float *y = out + (int64_t)r * Dp;

        // lanes of a padded tail load are 0 and are stored
        for (int i = 0; i < Dp; i += W)
            store(y + i, (D - i >= W ? load(x + i) : load_n(x + i, D - i)) * f);
    }
    if (rows_padded > rows)
        memset(out + (int64_t)rows * Dp, 0,
               (size_t)(rows_padded - rows) * (size_t)Dp * sizeof *out);
}

// out (D, TK) = transposed in (n, D), zeros in columns n .. TK-1
static void copy_transposed(float *out, const float *in, int64_t ld, int n, int D)
{
    for (int s = 0; s < n; s += 4) {
        int here = n - s < 4 ? n - s : 4;
        const float *x = in + s * ld;

        if (here == 4)
            for (int i = 0; i < D; i++) {
                float *y = out + (int64_t)i * TK + s;

                y[0] = x[i];
                y[1] = x[ld + i];
                y[2] = x[2 * ld + i];
                y[3] = x[3 * ld + i];
            }
        else
            for (int i = 0; i < D; i++)
                for (int j = 0; j < here; j++)
                    out[(int64_t)i * TK + s + j] = x[j * ld + i];
    }
    for (int i = 0; n < TK && i < D; i++)
        memset(out + (int64_t)i * TK + n, 0, (size_t)(TK - n) * sizeof *out);
}

// out (rows, D) = or += in (rows, Dp)
static void write_rows(float *out, int64_t ld, const float *in, int rows, int D, bool acc)
{
    int Dp = round_up(D);

    for (int r = 0; r < rows; r++) {
        const float *x = in + (int64_t)r * Dp;
        float *y = out + r * ld;

        EACH(D, STORE(y, acc ? LOAD(y) + LOAD(x) : LOAD(x)););
    }
}

// What is added to the scores of one tile: key biases and the slope.
struct tile_bias {
    float key[TK]; // kbias of the tile's keys, 0 without
    float slope;
    bool any;
};

static void load_bias(struct tile_bias *bias, const struct attn *a, int b, int k0, int n)
{
    memset(bias->key, 0, sizeof bias->key);
    if (a->kbias)
        memcpy(bias->key, a->kbias + (int64_t)b * a->d.Tk + k0, (size_t)n * sizeof(float));
    bias->any = a->kbias || a->slopes;
}

// kbias[s] - slope * distance for the keys j .. j+W of a tile; `distance` is that of its first key.
VEC_INLINE vf bias_of(const struct tile_bias *bias, int j, int distance)
{
    return load(bias->key + j) - bias->slope * ((float)(distance - j) - lanes());
}

// Lanes j + i < visible keep x, the others become `hidden`.
VEC_INLINE vf causal(vf x, int j, int visible, float hidden)
{
    if (j + W <= visible)
        return x;
    return first_lanes(x, visible - j, hidden);
}

static int first_position(const struct attn *a)
{
    return a->d.Tk - a->d.Tq;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int group_of(const struct attn *a, int h)
{
    return (int)((int64_t)h * a->d.G / a->d.H);
}

static const float *key_rows(const struct attn *a, const float *base, int64_t ld, int b, int g,
                             int k0)
{
    return base + ((int64_t)b * a->d.Tk + k0) * ld + (int64_t)g * a->d.D;
}

// ---- forward ---------------------------------------------------------------------------------

struct forward_state {
    float *q, *o;      // (rows, Dp)
    float *kt, *v, *p; // (D, TK), (TK, Dp), (TQ, TK)
    float m[ATTN_QUERIES], l[ATTN_QUERIES];
};

// Scores of one row in p (np) become exp(score - m); m, l and o of the row follow.
static void forward_row(struct forward_state *f, const struct tile_bias *bias, int row, float *p,
                        int np, int visible, int distance, int Dp)
{
    vf tops = splat(-INFINITY), sums = zero(), top;
    float was = f->m[row], now, shrink;

    for (int j = 0; j < np; j += W) {
        vf s = load(p + j);

        if (bias->any)
            s += bias_of(bias, j, distance);
        s = causal(s, j, visible, -INFINITY);
        store(p + j, s);
        tops = max_(s, tops);
    }
    now = hmax(tops);
    now = now > was ? now : was;
    top = splat(now);
    for (int j = 0; j < np; j += W) {
        vf e = exp_(load(p + j) - top);

        store(p + j, e);
        sums += e;
    }
    if (now != was) {
        float *o = f->o + (int64_t)row * Dp;

        shrink = exp_(splat(was - now))[0];
        f->l[row] *= shrink;
        for (int i = 0; i < Dp; i += W)
            store(o + i, load(o + i) * shrink);
    }
    f->m[row] = now;
    f->l[row] += hsum(sums);
}

static void forward_tile(struct forward_state *f, const struct attn *a,
                         const struct tile_bias *bias, int r0, int rows, int first, int k0, int nk)
{
    int D = a->d.D, Dp = round_up(D), n = smaller(nk, first + rows - k0), np = round_up(n);

    multiply(f->p, TK, (struct left){f->q + (int64_t)r0 * Dp, Dp, 1}, (struct right){f->kt, TK},
             (struct size){TQ, np, D}, false);
    for (int r = 0; r < rows; r++) {
        int visible = first + r - k0 + 1;

        if (visible <= 0)
            memset(f->p + r * TK, 0, (size_t)np * sizeof(float));
        else
            forward_row(f, bias, r0 + r, f->p + r * TK, np, smaller(visible, n), first + r - k0,
                        Dp);
    }
    multiply(f->o + (int64_t)r0 * Dp, Dp, (struct left){f->p, TK, 1}, (struct right){f->v, Dp},
             (struct size){TQ, Dp, n}, true);
}

static void finish_forward(const struct forward_state *f, const struct attn *a, int b, int h,
                           int t0, int rows)
{
    int D = a->d.D, Dp = round_up(D);

    for (int r = 0; r < rows; r++) {
        const float *o = f->o + (int64_t)r * Dp;
        float *y = a->y + ((int64_t)b * a->d.Tq + t0 + r) * a->d.ldy + (int64_t)h * D;
        vf inverse = splat(1 / f->l[r]);

        EACH(D, STORE(y, LOAD(o) * inverse););
        a->lse[((int64_t)b * a->d.H + h) * a->d.Tq + t0 + r] = f->m[r] + logf(f->l[r]);
    }
}

static void vec_attn_forward(const struct attn *a, int b, int h, int t0, float *scratch)
{
    int D = a->d.D, Dp = round_up(D), rows = smaller(ATTN_QUERIES, a->d.Tq - t0);
    int padded = (rows + TQ - 1) / TQ * TQ, start = first_position(a) + t0, end = start + rows;
    const float *q = a->q + ((int64_t)b * a->d.Tq + t0) * a->d.ldq + (int64_t)h * D;
    struct forward_state f = {.q = scratch};
    struct tile_bias bias = {.slope = a->slopes ? a->slopes[h] : 0};

    f.o = f.q + (int64_t)ATTN_QUERIES * Dp;
    f.kt = f.o + (int64_t)ATTN_QUERIES * Dp;
    f.v = f.kt + (int64_t)TK * Dp;
    f.p = f.v + (int64_t)TK * Dp;
    copy_rows(f.q, q, a->d.ldq, rows, padded, D, a->d.scale);
    memset(f.o, 0, (size_t)padded * (size_t)Dp * sizeof(float));
    for (int r = 0; r < rows; r++) {
        f.m[r] = -INFINITY;
        f.l[r] = 0;
    }
    for (int k0 = 0; k0 < end; k0 += TK) {
        int nk = smaller(TK, end - k0);
        const float *k = key_rows(a, a->k, a->d.ldk, b, group_of(a, h), k0);
        const float *v = key_rows(a, a->v, a->d.ldv, b, group_of(a, h), k0);

        copy_transposed(f.kt, k, a->d.ldk, nk, D);
        copy_rows(f.v, v, a->d.ldv, nk, nk, D, 1);
        load_bias(&bias, a, b, k0, nk);
        for (int r0 = 0; r0 < rows; r0 += TQ) {
            int here = smaller(TQ, rows - r0);

            if (start + r0 + here > k0)
                forward_tile(&f, a, &bias, r0, here, start + r0, k0, nk);
        }
    }
    finish_forward(&f, a, b, h, t0, rows);
}

// ---- backward --------------------------------------------------------------------------------

struct backward_state {
    float *kt, *vt;     // (D, TK)
    float *k, *dk, *dv; // (TK, Dp)
    float *q, *dy, *dq; // (TQ, Dp)
    float *p, *ds;      // (TQ, TK)
    float dbias[TK];    // column sums of ds
};

// Scores in p become probabilities, dp in ds becomes scale * p * (dp - delta).
static void backward_row(struct backward_state *s, const struct tile_bias *bias, float *p,
                         float *ds, int np, int visible, int distance, float scale, float lse,
                         float delta)
{
    vf sc = splat(scale), total = splat(lse), mean = splat(delta);

    for (int j = 0; j < np; j += W) {
        vf x = fma_(load(p + j), sc, -total), e, g;

        if (bias->any)
            x += bias_of(bias, j, distance);
        e = causal(exp_(x), j, visible, 0);
        g = causal(e * (load(ds + j) - mean), j, visible, 0);
        store(p + j, e);
        store(ds + j, g * sc);
        store(s->dbias + j, load(s->dbias + j) + g);
    }
}

// Query rows t0 .. t0+rows of head h against the keys k0 .. k0+nk.
static void backward_tile(struct backward_state *s, const struct attn *a,
                          const struct tile_bias *bias, int b, int h, int t0, int rows, int k0,
                          int nk)
{
    int D = a->d.D, Dp = round_up(D), first = first_position(a) + t0;
    int n = smaller(nk, first + rows - k0), np = round_up(n);
    int64_t row = (int64_t)b * a->d.Tq + t0;
    const float *dy = a->dy + row * a->d.ldy + (int64_t)h * D;
    const float *y = a->y + row * a->d.ldy + (int64_t)h * D;
    const float *lse = a->lse + ((int64_t)b * a->d.H + h) * a->d.Tq + t0;

    copy_rows(s->q, a->q + row * a->d.ldq + (int64_t)h * D, a->d.ldq, rows, TQ, D, 1);
    copy_rows(s->dy, dy, a->d.ldy, rows, TQ, D, 1);
    multiply(s->p, TK, (struct left){s->q, Dp, 1}, (struct right){s->kt, TK},
             (struct size){TQ, np, D}, false);
    multiply(s->ds, TK, (struct left){s->dy, Dp, 1}, (struct right){s->vt, TK},
             (struct size){TQ, np, D}, false);
    for (int r = 0; r < rows; r++)
        backward_row(s, bias, s->p + r * TK, s->ds + r * TK, np, smaller(first + r - k0 + 1, n),
                     first + r - k0, a->d.scale, lse[r],
                     vec_dot(dy + r * a->d.ldy, y + r * a->d.ldy, D));
    multiply(s->dv, Dp, (struct left){s->p, 1, TK}, (struct right){s->dy, Dp},
             (struct size){np, Dp, rows}, true);
    multiply(s->dk, Dp, (struct left){s->ds, 1, TK}, (struct right){s->q, Dp},
             (struct size){np, Dp, rows}, true);
    multiply(s->dq, Dp, (struct left){s->ds, TK, 1}, (struct right){s->k, Dp},
             (struct size){TQ, Dp, n}, false);
    write_rows(a->dq + row * a->d.ldq + (int64_t)h * D, a->d.ldq, s->dq, rows, D, k0 > 0);
}

static void backward_keys(struct backward_state *s, const struct attn *a, int b, int g, int k0,
                          int nk)
{
    int D = a->d.D, Dp = round_up(D), start = first_position(a);
    const float *k = key_rows(a, a->k, a->d.ldk, b, g, k0);
    const float *v = key_rows(a, a->v, a->d.ldv, b, g, k0);
    struct tile_bias bias;
    // query tiles that end before k0 see none of these keys
    int from = k0 > start ? (k0 - start) / TQ * TQ : 0;

    copy_transposed(s->kt, k, a->d.ldk, nk, D);
    copy_transposed(s->vt, v, a->d.ldv, nk, D);
    copy_rows(s->k, k, a->d.ldk, nk, nk, D, 1);
    memset(s->dk, 0, (size_t)TK * (size_t)Dp * sizeof(float));
    memset(s->dv, 0, (size_t)TK * (size_t)Dp * sizeof(float));
    memset(s->dbias, 0, sizeof s->dbias);
    load_bias(&bias, a, b, k0, nk);
    for (int h = 0; h < a->d.H; h++) {
        if (group_of(a, h) != g)
            continue;
        bias.slope = a->slopes ? a->slopes[h] : 0;
        for (int t0 = from; t0 < a->d.Tq; t0 += TQ)
            backward_tile(s, a, &bias, b, h, t0, smaller(TQ, a->d.Tq - t0), k0, nk);
    }
    write_rows(a->dk + (k - a->k), a->d.ldk, s->dk, nk, D, false);
    write_rows(a->dv + (v - a->v), a->d.ldv, s->dv, nk, D, false);
}

static void vec_attn_backward(const struct attn *a, int b, int g, float *dkbias, float *scratch)
{
    int64_t Dp = round_up(a->d.D);
    struct backward_state s = {.kt = scratch};

    s.vt = s.kt + TK * Dp;
    s.k = s.vt + TK * Dp;
    s.dk = s.k + TK * Dp;
    s.dv = s.dk + TK * Dp;
    s.q = s.dv + TK * Dp;
    s.dy = s.q + TQ * Dp;
    s.dq = s.dy + TQ * Dp;
    s.p = s.dq + TQ * Dp;
    s.ds = s.p + TQ * TK;
    for (int k0 = 0; k0 < a->d.Tk; k0 += TK) {
        int nk = smaller(TK, a->d.Tk - k0);

        backward_keys(&s, a, b, g, k0, nk);
        if (dkbias)
            memcpy(dkbias + k0, s.dbias, (size_t)nk * sizeof *dkbias);
    }
}

#endif
