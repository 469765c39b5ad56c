#include "tui/tabs.h"

#include <stdio.h>
#include <string.h>

#include "tui/app.h"
#include "tui/recover.h"

struct design *tabs_new(struct app *app)
{
    struct tabs *t = &app->tabs;

    if (t->n == TABS_MAX) {
        app_message(app, ROLE_WARN, "%d designs are open, that is all there is room for; X closes one",
                    TABS_MAX);
        return NULL;
    }
    t->at = t->n++;
    t->v[t->at] = app->design = design_new();
    return app->design;
}

void tabs_go(struct app *app, int by)
{
    struct tabs *t = &app->tabs;

    t->at = (t->at + by + t->n) % t->n;
    app->design = t->v[t->at];
    app->redraw = true;
}

void tabs_close(struct app *app)
{
    struct tabs *t = &app->tabs;

    if (t->n == 1)
        return;
    recover_remove(t->v[t->at]);
    design_free(t->v[t->at]);
    t->n--;
    memmove(t->v + t->at, t->v + t->at + 1, (size_t)(t->n - t->at) * sizeof *t->v);
    t->at = t->at < t->n ? t->at : t->n - 1;
    app->design = t->v[t->at];
    app->redraw = true;
}

void tabs_release(struct tabs *t)
{
    for (int i = 0; i < t->n; i++)
        design_free(t->v[i]);
    memset(t, 0, sizeof *t);
}

int tabs_dirty(const struct tabs *t)
{
    int n = 0;

    for (int i = 0; i < t->n; i++)
        n += design_dirty(t->v[i]);
    return n;
}

const char *tabs_name(const struct design *d)
{
    const char *slash = strrchr(d->path, '/');

    return d->path[0] ? slash ? slash + 1 : d->path : d->spec.name;
}

char *tabs_words(const struct app *app, char *out, size_t size)
{
    const struct tabs *t = &app->tabs;
    char place[32] = "";

    if (t->n > 1)
        snprintf(place, sizeof place, "%d/%d  ", t->at + 1, t->n);
    snprintf(out, size, "%s%s%s", place, tabs_name(app->design),
             design_dirty(app->design) ? " [+]" : "");
    return out;
}
