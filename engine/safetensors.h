// safetensors files: 8-byte little-endian header length, JSON header, data without gaps.
// Written as F32 with "format": "pt"; read with every rule of the format checked. Any thread.
#ifndef ENGINE_SAFETENSORS_H
#define ENGINE_SAFETENSORS_H

#include <jansson.h>
#include <stdint.h>

#include "engine/err.h"

enum { ST_MAX_DIMS = 4 };

struct st_tensor {
    char name[96];
    int n_dims;
    int64_t shape[ST_MAX_DIMS];
    int64_t size; // elements
    const float *data;
};

// Streams the tensors to a temporary name, syncs, renames to path; the directory is the caller's to
// sync. `size` must be the product of shape. metadata: string -> string object or NULL.
int safetensors_write(const char *path, const struct st_tensor *t, int n, const json_t *metadata,
                      struct err *err);

struct safetensors { // mapped read-only
    struct st_tensor *t;
    int n;            // sorted by name
    json_t *metadata; // object, may be empty
    void *map;
    size_t map_size;
};
int safetensors_open(struct safetensors *f, const char *path, struct err *err);
const struct st_tensor *safetensors_find(const struct safetensors *f, const char *name);
void safetensors_close(struct safetensors *f);

#endif
