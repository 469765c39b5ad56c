#include "engine/restore.h"

#include <stdio.h>
#include <string.h>

#include "engine/ckpt.h"
#include "engine/run.h"
#include "engine/weights.h"

int restore_find(struct restored *r, const char *run, int64_t step, struct err *err)
{
    const char *slash;

    memset(r, 0, sizeof *r);
    if (run_find(run, r->dir, sizeof r->dir, err) < 0 ||
        run_load_profile(r->dir, &r->spec, err) < 0)
        return -1;
    slash = strrchr(r->dir, '/');
    snprintf(r->run, sizeof r->run, "%.63s", slash ? slash + 1 : r->dir);
    r->step = ckpt_find(r->dir, step, r->ckpt, sizeof r->ckpt, err);
    return r->step < 0 ? -1 : 0;
}

static int load_weights(struct restored *r, struct err *err)
{
    struct safetensors f;
    char path[640];
    int rc;

    snprintf(path, sizeof path, "%s/model.safetensors", r->ckpt);
    if (safetensors_open(&f, path, err) < 0)
        return -1;
    rc = weights_load(r->model, &f, path, err);
    safetensors_close(&f);
    return rc;
}

int restore_load(struct restored *r, const char *backend, enum model_use use, struct err *err)
{
    const char *name = backend && strcmp(backend, "auto") ? backend : "cpu";
    char why[256] = "";

    if (!(r->be = backend_open(name, r->spec.train.threads, why, sizeof why)))
        return err_set(err, "backend '%s' is not available: %s", name, why);
    if (!(r->model = model_new_for(r->be, &r->spec, use, err)))
        return -1;
    return load_weights(r, err);
}

void restore_close(struct restored *r)
{
    if (r->model)
        model_free(r->model);
    if (r->be)
        backend_close(r->be);
    r->model = NULL;
    r->be = NULL;
}
