// Checkpoint directories: runs/<id>/ckpt/<step>/ holding model.safetensors, config.json,
// train_state.safetensors and profile.yaml. Written as <step>.tmp, fsynced, renamed: a directory
// without .tmp is complete. Every file's size and CRC-32 stand in MANIFEST.json, checked on open.
#ifndef ENGINE_CKPT_H
#define ENGINE_CKPT_H

#include <jansson.h>
#include <stdint.h>

#include "engine/err.h"
#include "engine/spec.h"

// The hub's config.json of a model: standard keys hold the largest per-layer values, the per-layer
// ones stand beside them. New reference.
json_t *ckpt_config(const struct spec *spec);

// Makes <run>/ckpt/<step>.tmp/ and writes its path to dir.
int ckpt_begin(const char *run_dir, int64_t step, char *dir, size_t dir_size, struct err *err);
// Writes profile.yaml, config.json and the manifest into dir, syncs, renames; then removes all but
// the newest `keep` checkpoints.
// A checkpoint of the same step is replaced. On failure the .tmp stays for ckpt_abort().
int ckpt_commit(const char *run_dir, int64_t step, const struct spec *spec, int keep,
                struct err *err);
void ckpt_abort(const char *run_dir, int64_t step);

// Newest checkpoint whose manifest and checksums hold. Returns its step and writes the directory,
// -1 when the run has none. Damaged ones are named in `skipped` (text, may be NULL).
int64_t ckpt_latest(const char *run_dir, char *dir, size_t dir_size, char *skipped,
                    size_t skipped_size);
// The same with words: the checkpoint of `step`, or the newest one when step < 0. -1 with what is
// wrong and which ones there are. A running run may remove what is found (save.keep): what has been
// opened stays readable, and another one is there.
int64_t ckpt_find(const char *run_dir, int64_t step, char *dir, size_t dir_size, struct err *err);
// Steps that have a directory, newest first, good or not. Caller frees *steps. Their number.
int ckpt_steps(const char *run_dir, int64_t **steps);

#endif
