// Every member of struct ops, in order. backend.c takes the names from here, trace.c and the
// tables of the backends their slots, so that no op can be forgotten in one of them.
#ifndef KERNELS_OPLIST_H
#define KERNELS_OPLIST_H

// Device memory: uncounted plumbing of a backend.
#define MEMORY_OPS(X)                                                                              \
    X(alloc)                                                                                       \
    X(release)                                                                                     \
    X(upload)                                                                                      \
    X(download)                                                                                    \
    X(upload_f64)                                                                                  \
    X(download_f64)                                                                                \
    X(upload_i32)                                                                                  \
    X(reserve)                                                                                     \
    X(sync)                                                                                        \
    X(close)

#define COMPUTE_OPS(X)                                                                             \
    X(embedding_forward)                                                                           \
    X(embedding_backward)                                                                          \
    X(rmsnorm_forward)                                                                             \
    X(rmsnorm_backward)                                                                            \
    X(layernorm_forward)                                                                           \
    X(layernorm_backward)                                                                          \
    X(linear_forward)                                                                              \
    X(linear_backward)                                                                             \
    X(rope_forward)                                                                                \
    X(rope_backward)                                                                               \
    X(attention_forward)                                                                           \
    X(attention_backward)                                                                          \
    X(swiglu_forward)                                                                              \
    X(swiglu_backward)                                                                             \
    X(gelu_forward)                                                                                \
    X(gelu_backward)                                                                               \
    X(residual_forward)                                                                            \
    X(residual_backward)                                                                           \
    X(gate_forward)                                                                                \
    X(gate_backward)                                                                               \
    X(gate_stats)                                                                                  \
    X(gate_penalty)                                                                                \
    X(softmax_xent)                                                                                \
    X(adamw_step)                                                                                  \
    X(sum_squares)                                                                                 \
    X(sum)                                                                                         \
    X(scale)                                                                                       \
    X(axpy)                                                                                        \
    X(fill)                                                                                        \
    X(add_act)                                                                                     \
    X(copy_act)                                                                                    \
    X(row_norms)                                                                                   \
    X(cast_to_act)                                                                                 \
    X(cast_to_f32)

#define ALL_OPS(X) MEMORY_OPS(X) COMPUTE_OPS(X)

// Index of an op in struct ops: OP_alloc, OP_linear_forward, ...
#define OP_INDEX_(name) OP_##name,
enum op_index { ALL_OPS(OP_INDEX_) OP_COUNT_ };
#undef OP_INDEX_

#endif
