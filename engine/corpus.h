// Text into token files: a built-in corpus or the user's own text (plain or gzip), cut into
// documents, split by document into training and validation, permuted once, and written as bytes
// plus end-of-text (ids 0..255 and 256).
//
// A document goes to validation when the keyed hash of its bytes falls below the share, so equal
// documents always share a side and the split does not depend on their order. All of the text is
// held in memory.
#ifndef ENGINE_CORPUS_H
#define ENGINE_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/err.h"

enum { CORPUS_VOCAB = 257, CORPUS_EOT = 256 };

enum corpus_cut {
    CORPUS_CUT_PARAGRAPHS, // at runs of blank lines (white space counts as blank)
    CORPUS_CUT_ENTRIES,    // at a blank line followed by text in column 0: dictd dictionaries
    CORPUS_CUT_SEPARATOR,  // at a given text
};

struct corpus_doc {
    size_t start, len; // bytes of the text; len > 0
};

// Cuts text into documents without the line ends around them; empty parts are dropped but counted.
// *docs is malloc'ed. Returns their number; *entries (may be NULL) gets the parts including empty
// ones.
int64_t corpus_split(const char *text, size_t len, enum corpus_cut cut, const char *separator,
                     struct corpus_doc **docs, int64_t *entries);

// Does this document belong to validation?
bool corpus_is_validation(const char *doc, size_t len, int64_t seed, double share);

struct corpus_options {
    const char *name;         // a built-in corpus, or NULL for files
    const char *const *files; // text, plain or gzip; a document never spans two files
    int n_files;
    const char *out_dir;   // NULL: below the data directory, named after the corpus or first file
    const char *separator; // NULL: at blank lines
    const char *built_in_path; // NULL: where its package puts it
    int64_t seed;
    double val_share; // 0 .. 0.5; 0 = no validation file
    bool force;       // prepare again even when an intact one is there
    // Called now and then with 0..1; may be NULL. Not 0 = give up.
    int (*progress)(void *user, const char *phase, double done);
    void *user;
};

struct corpus_part {
    char path[512];
    int64_t documents, tokens, source_bytes;
};

struct corpus_report {
    bool already; // an intact preparation with the same recipe was there; nothing was done
    bool no_val;  // val_share 0
    int64_t entries, empty; // parts of the text, and those of them with nothing in them
    int64_t replaced_bytes; // bytes mapped to ASCII, as the built-in corpus asks
    struct corpus_part train, val;
};

// The names of the built-in corpora, NULL behind the last.
const char *corpus_built_in(int i);

// Writes out_dir/train.bin and val.bin with their siblings. 0 or -1 with nothing half-written left.
int corpus_prepare(const struct corpus_options *o, struct corpus_report *r, struct err *err);

#endif
