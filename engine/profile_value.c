// Reading one value: whole numbers with units, numbers, and words, each with its complaint.
#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/profile_read.h"

void value_wrong_type(struct reading *r, const char *path, const struct node *v,
                      const char *expected)
{
    char q[QUOTE_SIZE];

    if (v->kind == NODE_LIST)
        reading_error(r, v, path, "expected %s, got a list", expected);
    else if (v->kind == NODE_MAP)
        reading_error(r, v, path, "expected %s, got a mapping", expected);
    else if (v->is_quoted)
        reading_error(r, v, path, "expected %s, got the text \"%s\" in quotes", expected,
                      quote(q, v->text));
    else
        reading_error(r, v, path, "expected %s, got '%s'", expected, quote(q, v->text));
}

bool node_is_plain(const struct node *v)
{
    return v->kind == NODE_SCALAR && !v->is_quoted;
}

// YAML 1.1 reads 010 as eight, YAML 1.2 as ten.
static bool has_leading_zero(const char *s)
{
    s += *s == '-' || *s == '+';
    return s[0] == '0' && (isdigit((unsigned char)s[1]) || s[1] == '_');
}

bool value_parse_count(struct reading *r, const char *path, const struct node *v, const char *text,
                       int64_t *out)
{
    char q[QUOTE_SIZE];

    if (has_leading_zero(text)) {
        reading_error(r, v, path, "'%s' starts with 0, which some read as octal: drop the zero",
                      quote(q, text));
        return false;
    }
    if (unit_parse_count(text, out))
        return true;
    value_wrong_type(r, path, v, "a whole number (1000, 1_000, 180M, 64KiB)");
    return false;
}

bool value_count(struct reading *r, const char *path, const struct node *v, int64_t *out)
{
    if (node_is_plain(v))
        return value_parse_count(r, path, v, v->text, out);
    value_wrong_type(r, path, v, "a whole number (1000, 1_000, 180M, 64KiB)");
    return false;
}

bool value_fits_int(struct reading *r, const struct spec_key *k, const char *path,
                    const struct node *v, int64_t n)
{
    char text[UNIT_SIZE];

    if (n >= INT_MIN && n <= INT_MAX)
        return true;
    snprintf(text, sizeof text, "%lld", (long long)n);
    range_error(r, k, path, v, text);
    return false;
}

bool value_int(struct reading *r, const struct spec_key *k, const char *path, const struct node *v,
               int *out)
{
    int64_t n;

    if (!value_count(r, path, v, &n) || !value_fits_int(r, k, path, v, n))
        return false;
    *out = (int)n;
    return true;
}

bool value_float(struct reading *r, const char *path, const struct node *v, double *out)
{
    if (node_is_plain(v) && unit_parse_float(v->text, out))
        return true;
    value_wrong_type(r, path, v, "a number (0.1, 3e-4, 0.2%)");
    return false;
}

// Index of text in choices, -1 if it is none of them. `list` becomes "a, b or c".
int value_choose(const char *const *choices, const char *text, struct buf *list)
{
    int found = -1;

    buf_reset(list);
    for (int i = 0; choices[i]; i++) {
        buf_fmt(list, "%s%s", !i ? "" : choices[i + 1] ? ", " : " or ", choices[i]);
        if (text && !strcmp(choices[i], text))
            found = i;
    }
    return found;
}

const struct node *node_child(const struct node *map, const char *key)
{
    for (int i = 0; i < map->n; i++)
        if (!strcmp(map->items[i].key->text, key))
            return map->items[i].value;
    return NULL;
}
