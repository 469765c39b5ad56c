#include "tui/help.h"

#include <stdio.h>
#include <string.h>

enum { KEY_COLUMN = 3, HELP_COLUMN = 20, MAX_LINES = 160 };

bool help_applies(const struct key_binding *b, enum context context)
{
    if (b->context == context)
        return true;
    if (b->context != CTX_GLOBAL)
        return false;
    for (int i = 0; i < key_table_count; i++) {
        const struct key_binding *own = &key_table[i];

        if (own->context == context && (own->command == b->command || own->key == b->key ||
                                        own->key2 == b->key || own->key3 == b->key))
            return false;
    }
    return true;
}

void help_open(struct help *h, enum context context, const char *title)
{
    memset(h, 0, sizeof *h);
    h->context = context;
    h->title = title;
}

static void scroll(struct help *h, int by)
{
    int most = h->lines > h->page ? h->lines - h->page : 0;

    h->top += by;
    if (h->top > most)
        h->top = most;
    if (h->top < 0)
        h->top = 0;
}

bool help_key(struct help *h, int key)
{
    switch (key) {
    case K_ESC:
        if (h->search.len == 0)
            return false;
        edit_set(&h->search, "");
        h->searching = false;
        return true;
    case K_ENTER:
    case K_F1:
        return false;
    case K_DOWN:
        scroll(h, 1);
        return true;
    case K_UP:
        scroll(h, -1);
        return true;
    case K_PGDN:
        scroll(h, h->page);
        return true;
    case K_PGUP:
        scroll(h, -h->page);
        return true;
    case K_HOME:
        scroll(h, -h->lines);
        return true;
    case K_END:
        scroll(h, h->lines);
        return true;
    case 'q':
    case '?':
        if (!h->searching)
            return false;
        break;
    case '/':
        if (!h->searching) {
            h->searching = true;
            return true;
        }
    }
    if (edit_key(&h->search, key)) {
        h->searching = true;
        h->top = 0;
    }
    return true;
}

static bool found(const struct help *h, const struct key_binding *b)
{
    return h->search.len == 0 || strcasestr(b->help, h->search.text) ||
           strcasestr(b->group, h->search.text) || strcasestr(b->keys, h->search.text) ||
           (b->label && strcasestr(b->label, h->search.text));
}

struct line {
    const char *heading;
    const struct key_binding *binding;
};

static bool heading_done(const struct line *lines, int n, const char *group)
{
    for (int i = 0; i < n; i++)
        if (lines[i].heading && !strcmp(lines[i].heading, group))
            return true;
    return false;
}

static int add_group(const struct help *h, struct line *lines, int n, const char *group)
{
    int start = n;

    lines[n++] = (struct line){group, NULL};
    for (int i = 0; i < key_table_count && n < MAX_LINES - 2; i++) {
        const struct key_binding *b = &key_table[i];

        if (help_applies(b, h->context) && !strcmp(b->group, group) && found(h, b))
            lines[n++] = (struct line){NULL, b};
    }
    if (n == start + 1)
        return start;
    lines[n++] = (struct line){NULL, NULL};
    return n;
}

// The screen's own groups first, then what holds everywhere.
static int make_lines(const struct help *h, struct line *lines)
{
    int n = 0;

    for (int global = 0; global < 2; global++)
        for (int i = 0; i < key_table_count && n < MAX_LINES - 2; i++) {
            const struct key_binding *b = &key_table[i];

            if ((b->context == CTX_GLOBAL) == global && help_applies(b, h->context) &&
                !heading_done(lines, n, b->group))
                n = add_group(h, lines, n, b->group);
        }
    return n;
}

void help_draw(struct help *h, struct canvas *c, const struct rect *r)
{
    struct line lines[MAX_LINES];
    struct rect list = {r->row + 2, r->col, r->rows - 3, r->cols};
    int n = make_lines(h, lines), used;

    canvas_fill(c, r, ROLE_TEXT, ' ');
    used = canvas_text(c, r, 0, 1, ROLE_TITLE, "Keys of ");
    used += canvas_text(c, r, 0, 1 + used, ROLE_TITLE, h->title);
    used += canvas_text(c, r, 0, 1 + used, ROLE_DIM, "   / or type to search: ");
    h->lines = n;
    h->page = list.rows > 0 ? list.rows : 0;
    scroll(h, 0);
    for (int i = 0; i < list.rows && h->top + i < n; i++) {
        const struct line *l = &lines[h->top + i];

        if (l->heading)
            canvas_text(c, &list, i, 1, ROLE_TITLE, l->heading);
        if (!l->binding)
            continue;
        canvas_text(c, &list, i, KEY_COLUMN, ROLE_KEY, l->binding->keys);
        canvas_text(c, &list, i, HELP_COLUMN, ROLE_TEXT, l->binding->help);
    }
    if (n == 0)
        canvas_text(c, &list, 0, 1, ROLE_DIM, "no key does that; Esc shows all");
    canvas_fmt(c, r, r->rows - 1, 1, ROLE_DIM, "Up Down PgUp PgDn scroll   %s%s",
               h->search.len  ? "Esc shows all"
               : h->searching ? "Esc closes"
                              : "q or Esc closes",
               h->top + h->page < n ? "   (more below)" : "");
    edit_draw(&h->search, c, r, 0, 1 + used, r->cols - used - 2);
}
