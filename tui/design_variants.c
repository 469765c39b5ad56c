// More designs from the one in hand: a copy, controls for its shape, uniform ones of its budget.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/variant.h"
#include "tui/design.h"
#include "tui/design_prompt.h"

// Opens spec beside `from`, against which its differences are shown. False when there is no room.
static bool open_beside(struct app *app, const struct spec *spec, const struct design *from)
{
    struct design *d = tabs_new(app);

    if (!d)
        return false;
    design_set_spec(d, spec, "");
    design_set_reference(d, &from->spec, from->spec.name);
    d->budget = from->budget;
    return true;
}

// ---- another one --------------------------------------------------------------------------------

static void copy_design(struct app *app)
{
    const struct design *from = app->design;

    if (!open_beside(app, &from->spec, from))
        return;
    app->design->saved = from->saved; // what was not saved there is not saved here
    app_message(app, ROLE_DIM, "a copy; [ goes back to the other, W saves this one");
}

static void tab_typed(struct app *app, const char *path)
{
    struct err err = ERR_INIT;
    char text[1600];

    if (!path[0]) {
        copy_design(app);
        return;
    }
    if (!tabs_new(app))
        return;
    if (design_open(app->design, path, &err) < 0) {
        tabs_close(app);
        app_message(app, ROLE_ERROR, "%s", err_format(&err, text, sizeof text));
        return;
    }
    if (design_remarks(app->design, text, sizeof text)[0])
        app_message(app, ROLE_WARN, "opened; %s", text);
    else
        app_message(app, ROLE_TEXT, "opened %s; [ and ] go from design to design, C compares",
                    path);
}

void design_ask_tab(struct app *app)
{
    app_prompt(app, "one more design: a profile, or nothing for a copy of this one:", "", tab_typed);
}

// ---- pasted text --------------------------------------------------------------------------------

static void paste_numbers(struct app *app, const struct design_copy *c)
{
    struct design *d = app->design;
    char why[DESIGN_WHY];
    bool done;

    d->lane = c->lane;
    done = design_paste(d, c, why);
    app_message(app, done && !why[0] ? ROLE_DIM : ROLE_WARN, "%s%s%s",
                done ? d->undo[d->at]->what : "", done && why[0] ? "; but " : "", why);
}

static void say_problem(struct app *app, const struct problems *problems)
{
    char text[1600];

    for (int i = 0; i < problems->n; i++)
        if (problems->v[i].severity == SEV_ERROR) {
            app_message(app, ROLE_WARN, "no list of numbers, and no profile: %s%s%s",
                        problems->v[i].path, problems->v[i].path[0] ? ": " : "",
                        err_format(&problems->v[i].err, text, sizeof text));
            return;
        }
}

void design_pasted(struct app *app, const char *text)
{
    struct spec *spec = xcalloc(1, sizeof *spec);
    struct problems problems = {0};
    struct design_copy c;

    if (design_copy_parse(app->design, text, &c)) {
        paste_numbers(app, &c);
    } else if (profile_parse("pasted", text, strlen(text), NULL, 0, spec, &problems) < 0) {
        say_problem(app, &problems);
    } else if (tabs_new(app)) {
        design_set_spec(app->design, spec, "");
        app_message(app, problems.n ? ROLE_WARN : ROLE_TEXT,
                    problems.n ? "%s, pasted as a new design; of it: %s" : "%s, pasted as a new design",
                    spec->name, problems.n ? problems.v[0].err.text : "");
    }
    problems_release(&problems);
    free(spec);
}

// ---- controls -----------------------------------------------------------------------------------

static int open_variant(struct app *app, const struct design *from, enum variant v, uint64_t seed)
{
    struct spec *s = xmalloc(sizeof *s);
    struct err err = ERR_INIT;
    int opened = 0;

    if (variant_make(&from->spec, v, seed, s, &err) < 0)
        app_message(app, ROLE_WARN, "%s", err.text);
    else
        opened = open_beside(app, s, from);
    free(s);
    return opened;
}

static int open_all(struct app *app, const struct design *from)
{
    int n = 0;

    for (int v = 0; v < VARIANTS; v++)
        n += open_variant(app, from, (enum variant)v, 1);
    return n;
}

// The grid of lathe grid, widest heads first, as far as there is room.
static int open_grid(struct app *app, const struct design *from, int *missing)
{
    enum { MOST = 64 };
    bool has = from->budget.kind != BUDGET_KINDS;
    enum budget b = has ? from->budget.kind : BUDGET_PARAMS;
    double target = has ? design_budget_target(from) : (double)from->count.total;
    int depths[MOST], heads[MOST], n = 0;
    int n_depths = variant_usual_depths(&from->spec, depths, MOST);
    int n_heads = variant_usual_heads(&from->spec, heads, MOST);
    struct spec *s = xmalloc(sizeof *s);

    *missing = 0;
    for (int h = n_heads - 1; h >= 0; h--)
        for (int i = 0; i < n_depths; i++) {
            struct err err = ERR_INIT;

            if (variant_uniform(&from->spec, depths[i], heads[h], b, target, s, &err) < 0)
                continue;
            if (app->tabs.n < TABS_MAX)
                n += open_beside(app, s, from);
            else
                ++*missing;
        }
    free(s);
    return n;
}

static bool begins(const char *word, const char *text)
{
    size_t n = strcspn(text, " ");

    return n > 0 && n <= strlen(word) && !strncmp(word, text, n);
}

static void say_opened(struct app *app, int n, int missing)
{
    if (missing > 0)
        app_message(app, ROLE_WARN, "%d opened; for %d more there is no room: lathe grid lists all",
                    n, missing);
    else if (n > 0)
        app_message(app, ROLE_DIM, "%d opened as new design%s; C compares, [ goes back", n,
                    n == 1 ? "" : "s");
}

static void controls_typed(struct app *app, const char *text)
{
    const struct design *from = app->design;
    int missing = 0, n = 0;
    int64_t seed = 1;

    text += strspn(text, " ");
    if (begins("permute", text) && text[strcspn(text, " ")] &&
        (!unit_parse_count(text + strcspn(text, " ") + 1, &seed) || seed < 0)) {
        app_message(app, ROLE_WARN, "permute takes a seed, a number like 1");
        return;
    }
    if (begins("reverse", text))
        n = open_variant(app, from, VARIANT_REVERSE, 0);
    else if (begins("permute", text))
        n = open_variant(app, from, VARIANT_PERMUTE, (uint64_t)seed);
    else if (begins("average", text))
        n = open_variant(app, from, VARIANT_AVERAGE, 0);
    else if (begins("all", text))
        n = open_all(app, from);
    else if (begins("grid", text))
        n = open_grid(app, from, &missing);
    else if (text[0])
        app_message(app, ROLE_WARN,
                    "'%.40s' is none of reverse, permute SEED, average, all, grid", text);
    if (n > 0)
        say_opened(app, n, missing);
}

void design_ask_controls(struct app *app)
{
    app_prompt(app, "control (reverse, permute SEED, average, all; grid):", "all", controls_typed);
}
