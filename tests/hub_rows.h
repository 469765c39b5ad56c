// Public models as compact rows: the fields of their hub configurations that decide the size, and
// their exact totals.
#ifndef TESTS_HUB_ROWS_H
#define TESTS_HUB_ROWS_H

#include <stdint.h>

struct hub_row {
    const char *name, *type; // type: model_type
    int layers, d, heads;
    int kv;       // 0: the file has no such field
    int head_dim; // likewise
    int ffn;      // likewise
    int vocab;
    int tied;    // 0, 1, or -1: the file has no such field
    int context; // longest
    int64_t total;
    const char *source; // what confirmed the total, see the table
};

extern const struct hub_row hub_rows[];
extern const int hub_row_count;

// The row as a config.json, caller frees.
char *hub_row_text(const struct hub_row *row);
// The total by one formula per family, written from the papers, not from the program.
int64_t hub_row_total(const struct hub_row *row);

// OpenELM: heads[0..layers) are the published per-layer lists, four query heads to a kv head; FFN
// factors from 0.5 to 4 in equal steps, with two decimals.
struct hub_elm {
    const char *name;
    int layers, d, head_dim;
    int heads[40];
    int64_t total;
    const char *source;
};
extern const struct hub_elm hub_elms[];
extern const int hub_elm_count;
char *hub_elm_text(const struct hub_elm *row);

// DeciLM: runs of alike blocks, up to the one with count 0.
struct hub_blocks {
    int count, group; // query heads per kv head, 0: no attention
    double ffn_mult;  // 0: no FFN
};
struct hub_deci {
    const char *name;
    int layers, d, heads, vocab;
    struct hub_blocks blocks[32];
    int64_t total;
    const char *source;
};
extern const struct hub_deci hub_decis[];
extern const int hub_deci_count;
char *hub_deci_text(const struct hub_deci *row);
// By a formula that adds up tensors, heads of d / heads.
int64_t hub_deci_total(const struct hub_deci *row);

#endif
