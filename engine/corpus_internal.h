// Shared by the corpus*.c files only.
#ifndef ENGINE_CORPUS_INTERNAL_H
#define ENGINE_CORPUS_INTERNAL_H

#include "engine/corpus.h"

struct corpus_text {
    char *data;
    size_t len, cap;
};

// Appends the file's text, unpacked. Refuses what is no text. 0 or -1.
int corpus_read(const char *path, struct corpus_text *t, const struct corpus_options *o,
                struct err *err);
uint64_t corpus_hash(const char *doc, size_t len, int64_t seed);

static inline int corpus_progress(const struct corpus_options *o, const char *phase, double done,
                                  struct err *err)
{
    if (o->progress && o->progress(o->user, phase, done))
        return err_set(err, "interrupted; nothing was written");
    return 0;
}

#endif
