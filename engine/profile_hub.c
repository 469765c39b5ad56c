// A hub configuration as one layer of a profile: its lines become nodes that stand where the fields
// of the configuration stand, so that messages and origins point there.
#include <stdlib.h>
#include <string.h>

#include "engine/hub.h"
#include "engine/profile_read.h"

static void move_nodes(struct doc *doc, const struct hub *hub)
{
    for (int i = 0; i < doc->n_nodes; i++) {
        struct node *node = doc->nodes[i];
        struct hub_place at = hub->line[node->line - 1];

        node->line = at.line;
        node->col = at.col;
        node->start = node->end = 0;
    }
}

static void show_text(struct doc *doc, const char *text, size_t len)
{
    free(doc->text);
    doc->text = xmalloc(len + 1);
    memcpy(doc->text, text, len);
    doc->text[len] = '\0';
    doc->len = len;
}

struct doc *doc_of_hub(const char *name, const char *text, size_t len, struct problems *p)
{
    static const enum severity severities[] = {
        [HUB_ERROR] = SEV_ERROR, [HUB_WARNING] = SEV_WARNING, [HUB_NOTE] = SEV_NOTE};
    struct hub hub;
    struct doc *doc;

    hub_read(text, len, &hub);
    doc = doc_parse(name, "", hub.yaml.len ? hub.yaml.data : "", hub.yaml.len, p);
    BUG_IF(!doc->root != !hub.yaml.len);
    move_nodes(doc, &hub);
    show_text(doc, text, len);
    for (int i = 0; i < hub.n; i++)
        problem_add(p, severities[hub.v[i].level], doc, hub.v[i].at.line, hub.v[i].at.col,
                    hub.v[i].field, "%s", hub.v[i].text);
    hub_release(&hub);
    return doc;
}
