// Inside of the profile reader, shared by profile*.c only: YAML text as a bounded tree of nodes with
// positions, the slot of each key (which node gave its value), and the steps from one to the next:
//   text -> doc_parse -> nodes -> slots_add (a layer per file or --set) -> bind -> check -> spec
// Later layers replace the slots of earlier ones; that is how extends and --set work.
#ifndef ENGINE_PROFILE_READ_H
#define ENGINE_PROFILE_READ_H

#include "engine/buf.h"
#include "engine/profile.h"

enum {
    DOC_MAX_ANCHORS = 256,
    DOC_MAX_KEYS = 1000, // in one mapping: duplicates are found by comparing all pairs
    READING_MAX_FILES = 64,
    PATH_SIZE = 128,
    QUOTE_SIZE = 80,
};

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

// A value in its place. An alias is the place of a node that stands elsewhere.
struct place {
    struct node *key; // NULL in lists
    struct node *value;
    size_t start, end; // bytes of the value as written here, in the text of its document
};

struct node {
    enum node_kind kind;
    const struct doc *doc;
    int line, col; // 1-based
    size_t start, end;
    bool is_quoted, is_flow;
    const char *text;    // NODE_SCALAR: UTF-8, no NUL inside
    struct place *items; // NODE_LIST, NODE_MAP
    int n;
    int64_t weight; // nodes below and including this one, aliases expanded
    int height;     // levels below this one
};

// One text: a file, a --set, or the defaults. Owns its nodes.
struct doc {
    char *name;
    char *text;
    size_t len;
    char *prefix;      // on the first line in front of the text: key= of a --set
    int col0;          // characters of prefix
    int set_number;    // of a --set, from 1; 0 for files
    struct node *root; // NULL when the text could not be parsed or is empty
    struct node **nodes;
    int n_nodes, cap_nodes;
};

struct slot {
    const struct node *key, *value; // value NULL: not given
    size_t start, end;
    int layer;   // order of the layer it came from; 0 = the defaults
    int group;   // layers of one group stand side by side: all --set, each file alone
    bool is_bad; // has been complained about: checks that need it are left out
};

enum { GROUP_SET = 1 << 20 };

struct lane_value {
    struct lane_source source;
    int n;
    int v[SPEC_MAX_LAYERS];
    const struct node *item[SPEC_MAX_LAYERS];
};

struct reading {
    struct problems *problems;
    struct doc **docs;
    int n_docs, n_layers, n_files;
    bool is_broken;                 // a text is no YAML mapping: do not report what is missing
    const struct doc *top;          // the file that was asked for
    const struct node *section[16]; // its section keys, parallel to section_names[]
    struct slot *slots;             // parallel to spec_keys[]; NULL: a spec without text
    struct lane_value lane[LANE_COUNT];
    struct spec *spec;
    const char *chain[PROFILE_MAX_EXTENDS + 1]; // files being read, for cycles
    int n_chain;
};

extern const char *const section_names[]; // NULL-terminated
int section_find(const char *name);       // -1 if there is none

// ---- profile_problem.c ----
// Adds a problem at a position of doc (NULL: no file; line 0: unknown). Counts without storing once
// PROFILE_MAX_PROBLEMS are there.
void problem_add(struct problems *p, enum severity severity, const struct doc *doc, int line,
                 int col, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));
// Puts the problems from index `from` on in the order of their places, file by file.
void problems_sort(struct problems *p, int from);
// s shortened and without control characters, for messages. out has QUOTE_SIZE bytes.
const char *quote(char *out, const char *s);
// Length of the valid UTF-8 sequence at s, 0 if there is none.
size_t utf8_sequence(const unsigned char *s, size_t left);

// ---- profile_tree.c ----
// What is wrong with the n bytes at s (0: no UTF-8) in the text of a profile; NULL: nothing.
const char *text_fault(const unsigned char *s, size_t n);
// Parses one YAML document with all limits. Takes a copy of text; prefix is what stands in front of
// it on its first line. Problems go to p; doc->root is NULL after a syntax error and for an empty
// text, otherwise usable even when duplicate keys were reported.
struct doc *doc_parse(const char *name, const char *prefix, const char *text, size_t len,
                      struct problems *p);
// A document that is this text, unread.
struct doc *doc_of_text(const char *name, const char *prefix, const char *text, struct problems *p);
void doc_free(struct doc *doc);

// ---- profile_hub.c ----
// The same for a hub configuration; positions are those of its fields.
struct doc *doc_of_hub(const char *name, const char *text, size_t len, struct problems *p);

// ---- profile_slots.c ----
// Puts every key of a document into its slot. Unknown, refused and repeated keys are reported.
void slots_add(struct reading *r, const struct doc *doc, int group);
// Puts the root of doc as the value of one path, that of a --set (key: the node of the path).
void slots_set(struct reading *r, const struct doc *doc, struct node *key);

// ---- profile_value.c ----
// The functions that return bool report what is wrong and leave *out alone.
void value_wrong_type(struct reading *r, const char *path, const struct node *v,
                      const char *expected);
// text instead of v's own, which it is a part of (2048 of "2048 x6").
bool value_parse_count(struct reading *r, const char *path, const struct node *v, const char *text,
                       int64_t *out);
bool value_count(struct reading *r, const char *path, const struct node *v, int64_t *out);
bool value_fits_int(struct reading *r, const struct spec_key *k, const char *path,
                    const struct node *v, int64_t n);
bool value_int(struct reading *r, const struct spec_key *k, const char *path, const struct node *v,
               int *out);
bool value_float(struct reading *r, const char *path, const struct node *v, double *out);
// Index of text in choices (NULL-terminated), -1 if it is none. *list becomes "a, b or c".
int value_choose(const char *const *choices, const char *text, struct buf *list);
bool node_is_plain(const struct node *v);                               // a scalar without quotes
const struct node *node_child(const struct node *map, const char *key); // NULL if there is none

// ---- profile_lane.c ----
void bind_lane(struct reading *r, const struct spec_key *k, const struct node *v);
// Fills the spec's lane. Generators need the scalars, {ratio: R} the heads.
void resolve_lane(struct reading *r, const struct spec_key *k);
bool lane_is_uniform(const struct model_spec *m, enum lane lane);
// Whether the generator or ratio src gives the values that the lane has now.
bool lane_source_holds(const struct lane_source *src, const struct model_spec *now, enum lane lane);

// ---- profile_bind.c ----
// Slots to r->spec: types, units, derived defaults, generators; then check_spec.
void reading_bind(struct reading *r);

// ---- profile_check.c ----
// Ranges of all keys but the lanes (only_given: those with a slot); bad ones are marked.
void check_scalars(struct reading *r, bool only_given);
// Lane ranges and everything between keys.
void check_rest(struct reading *r);
// Whether none of the keys (paths, NULL at the end) has been complained about.
bool all_good(const struct reading *r, ...) __attribute__((sentinel));
void mark_bad(struct reading *r, const char *path);
// Reports that the value of key is outside its range.
void range_error(struct reading *r, const struct spec_key *key, const char *path,
                 const struct node *node, const char *value);
// Reports at the node of `path`, or at the node given.
void reading_error(struct reading *r, const struct node *node, const char *path, const char *fmt,
                   ...) __attribute__((format(printf, 4, 5)));

// ---- profile.c ----
// Reads text (with its extends) and the --set texts into *r, which the caller releases.
// Returns 0 or -1.
int reading_run(struct reading *r, const char *name, const char *text, size_t len,
                const char *const *set, int n_set, struct spec *spec, struct problems *p);
void reading_release(struct reading *r);

// ---- profile_write.c ----
// YAML text of one key's value on one line, as profile_to_yaml writes it. Appends to out.
void value_to_yaml(const struct spec_key *key, const struct spec *spec, struct buf *out);
// All keys but those marked in left_out (parallel to spec_keys[]), values as profile_value_text().
void spec_to_sources(const struct spec *spec, const bool *left_out, struct buf *out);

#endif
