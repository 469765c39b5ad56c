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
    d->unsaved = true;
    return true;
}

// ---- another one --------------------------------------------------------------------------------

static void copy_design(struct app *app)
{
    const struct design *from = app->design;

    if (!open_beside(app, &from->spec, from))
        return;
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

// Terminals send the end of a line as a carriage return.
static char *with_newlines(const char *text)
{
    char *out = xstrdup(text);
    size_t n = 0;

    for (const char *at = text; *at; at++) {
        if (*at == '\r' && at[1] == '\n')
            continue;
        out[n++] = *at == '\r' ? '\n' : *at;
    }
    out[n] = 0;
    return out;
}

void design_pasted(struct app *app, const char *pasted)
{
    struct spec *spec = xcalloc(1, sizeof *spec);
    char *text = with_newlines(pasted);
    struct problems problems = {0};
    struct design_copy c;

    if (design_copy_parse(app->design, text, &c)) {
        paste_numbers(app, &c);
    } else if (profile_parse("pasted", text, strlen(text), NULL, 0, spec, &problems) < 0) {
        say_problem(app, &problems);
    } else if (tabs_new(app)) {
        design_set_spec(app->design, spec, "");
        app->design->unsaved = true;
        app_message(app, problems.n ? ROLE_WARN : ROLE_TEXT,
                    problems.n ? "%s, pasted as a new design; of it: %s" : "%s, pasted as a new design",
                    spec->name, problems.n ? problems.v[0].err.text : "");
    }
    problems_release(&problems);
    free(text);
    free(spec);
}

// ---- controls -----------------------------------------------------------------------------------

// How many were opened, and how many had no room; why says which could not be made.
struct opened {
    int n, missing;
    char why[DESIGN_WHY];
};

static void open_variant(struct app *app, const struct design *from, enum variant v, uint64_t seed,
                         struct opened *o)
{
    struct spec *s = xmalloc(sizeof *s);
    struct err err = ERR_INIT;
    size_t n = strlen(o->why);

    if (variant_make(&from->spec, v, seed, s, &err) < 0)
        snprintf(o->why + n, sizeof o->why - n, "%s%.100s", n ? "; " : "", err.text);
    else if (app->tabs.n < TABS_MAX)
        o->n += open_beside(app, s, from);
    else
        o->missing++;
    free(s);
}

// The grid of lathe grid, widest heads first, as far as there is room.
static void open_grid(struct app *app, const struct design *from, struct opened *o)
{
    enum { MOST = 64 };
    bool has = from->budget.kind != BUDGET_KINDS;
    enum budget b = has ? from->budget.kind : BUDGET_PARAMS;
    double target = has ? design_budget_target(from) : (double)from->count.total;
    int depths[MOST], heads[MOST];
    int n_depths = variant_usual_depths(&from->spec, depths, MOST);
    int n_heads = variant_usual_heads(&from->spec, heads, MOST);
    struct spec *s = xmalloc(sizeof *s);

    for (int h = n_heads - 1; h >= 0; h--)
        for (int i = 0; i < n_depths; i++) {
            struct err err = ERR_INIT;

            if (variant_uniform(&from->spec, depths[i], heads[h], b, target, s, &err) < 0)
                continue;
            if (app->tabs.n < TABS_MAX)
                o->n += open_beside(app, s, from);
            else
                o->missing++;
        }
    free(s);
}

static bool begins(const char *word, const char *text)
{
    size_t n = strcspn(text, " ");

    return n > 0 && n <= strlen(word) && !strncmp(word, text, n);
}

static void say_opened(struct app *app, const struct opened *o)
{
    const char *gap = o->why[0] ? "; " : "";

    if (o->missing > 0)
        app_message(app, ROLE_WARN,
                    "%d opened; for %d more there is no room (lathe grid lists them)%s%s", o->n,
                    o->missing, gap, o->why);
    else if (o->n > 0)
        app_message(app, o->why[0] ? ROLE_WARN : ROLE_DIM,
                    "%d opened as new design%s; C compares, [ goes back%s%s", o->n,
                    o->n == 1 ? "" : "s", gap, o->why);
    else
        app_message(app, ROLE_WARN, "%s", o->why);
}

static void make_controls(struct app *app, const char *word, uint64_t seed)
{
    const struct design *from = app->design;
    struct opened o = {.n = 0};
    bool all = begins("all", word);

    if (begins("grid", word)) {
        open_grid(app, from, &o);
    } else {
        for (int v = 0; v < VARIANTS; v++)
            if (all || begins(variant_names[v], word))
                open_variant(app, from, (enum variant)v, seed, &o);
    }
    if (o.n + o.missing > 0 || o.why[0])
        say_opened(app, &o);
    else
        app_message(app, ROLE_WARN, "'%.40s' is none of reverse, permute SEED, average, all, grid",
                    word);
}

static void controls_typed(struct app *app, const char *text)
{
    const char *number;
    int64_t seed = 1;

    text += strspn(text, " ");
    number = text + strcspn(text, " ");
    number += strspn(number, " ");
    if (number[0] && (!unit_parse_count(number, &seed) || seed < 0))
        app_message(app, ROLE_WARN, "permute takes a seed, a number like 1");
    else if (text[0])
        make_controls(app, text, (uint64_t)seed);
}

void design_ask_controls(struct app *app)
{
    app_prompt(app, "control (reverse, permute SEED, average, all; grid):", "all", controls_typed);
}
