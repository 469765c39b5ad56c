#include "kernels/backend.h"

#include <stdio.h>
#include <string.h>

#include "kernels/bug.h"
#include "kernels/cpu.h"
#include "kernels/oplist.h"
#include "kernels/ref.h"

#define NAME(op) #op,
static const char *const op_names[] = {ALL_OPS(NAME)};
#undef NAME

#define IN_ORDER(op)                                                                               \
    _Static_assert(offsetof(struct ops, op) == OP_##op * sizeof(void (*)(void)),                   \
                   "oplist.h and struct ops list the ops in different order");
ALL_OPS(IN_ORDER)
#undef IN_ORDER
_Static_assert(sizeof op_names / sizeof op_names[0] == OPS_COUNT,
               "oplist.h must name every member of struct ops");

static const struct {
    const char *name;
    struct backend *(*open)(int threads, char *why, size_t why_size);
} backends[] = {
    {"cpu", cpu_open},
    {"ref", ref_open},
};

const char *backend_op_name(int i)
{
    BUG_IF(i < 0 || (size_t)i >= OPS_COUNT);
    return op_names[i];
}

static void check_complete(const struct backend *be)
{
    void (*slot)(void);

    for (size_t i = 0; i < OPS_COUNT; i++) {
        memcpy(&slot, (const char *)be->op + i * sizeof slot, sizeof slot);
        if (!slot)
            BUG("backend '%s' has no op '%s'", be->name, op_names[i]);
    }
    BUG_IF(!be->act_size || !be->f32_size || be->threads < 1);
}

struct backend *backend_open(const char *name, int threads, char *why, size_t why_size)
{
    if (threads < 0) {
        snprintf(why, why_size, "threads %d is negative, expected 0 (all cores) or more", threads);
        return NULL;
    }
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        struct backend *be;

        if (strcmp(backends[i].name, name) != 0)
            continue;
        be = backends[i].open(threads, why, why_size);
        if (be)
            check_complete(be);
        return be;
    }
    snprintf(why, why_size, "this build has no backend '%s', expected cpu or ref", name);
    return NULL;
}

void backend_close(struct backend *be)
{
    if (be)
        be->op->close(be);
}
