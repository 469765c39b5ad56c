#include "tests/screens.h"

#include "engine/run.h"
#include "tests/t.h"

const struct screen_size screen_sizes[SCREEN_SIZES] = {{7, 40}, {20, 80}, {26, 100}, {56, 200}};

int screen_setup(void **state)
{
    static int n;
    char name[32];

    snprintf(name, sizeof(name), "runs%d", n++);
    runs_set_dir(t_path(name));
    *state = calloc(1, sizeof(struct app));
    ((struct app *)*state)->tick_ms = APP_TICK_MS;
    return 0;
}

char *screen_text(const struct screen *s, struct app *app, int rows, int cols, bool utf8)
{
    struct canvas c;
    struct rect body = {0, 0, rows, cols};
    char *text;

    canvas_init(&c, rows, cols, utf8);
    canvas_clear(&c);
    s->draw(app, &c, &body);
    text = canvas_dump(&c);
    canvas_release(&c);
    return text;
}

void screen_expect(const struct screen *s, struct app *app, int rows, int cols, bool utf8,
                   const char *want, bool there)
{
    char *text = screen_text(s, app, rows, cols, utf8);

    if ((strstr(text, want) != NULL) != there)
        fail_msg("%dx%d %s '%s':\n%s", cols, rows, there ? "lacks" : "shows", want, text);
    free(text);
}
