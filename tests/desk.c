#include "tests/desk.h"

#include <locale.h>

#include "engine/run.h"
#include "tests/t.h"
#include "tui/design.h"
#include "tui/launch.h"
#include "tui/utf8.h"

struct app desk_app;
struct canvas desk_canvas;

void desk_open(const char *profile)
{
    struct err err = ERR_INIT;

    app_release(&desk_app);
    app_init(&desk_app);
    if (profile && design_open(desk_app.design, profile, &err) < 0)
        fail_msg("%s: %s", profile, err.text);
}

void desk_draw(int rows, int cols, bool utf8)
{
    canvas_release(&desk_canvas);
    canvas_init(&desk_canvas, rows, cols, utf8);
    app_draw(&desk_app, &desk_canvas);
}

const char *desk_screen(void)
{
    static char *text;

    free(text);
    text = canvas_dump(&desk_canvas);
    return text;
}

bool desk_shows(const char *text)
{
    return strstr(desk_screen(), text) != NULL;
}

void desk_keys(const char *text)
{
    while (*text) {
        uint32_t ch = utf8_next(&text);

        app_key(&desk_app,
                ch == '\n'   ? K_ENTER
                : ch == 27   ? K_ESC
                : ch == '\t' ? K_TAB
                             : (int)ch,
                "");
    }
}

uint32_t desk_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

void desk_random_edit(uint32_t *seed)
{
    static const char *const edits[] = {"k",
                                        "j",
                                        "K",
                                        "J",
                                        "l",
                                        "h",
                                        "\t",
                                        "v",
                                        "V",
                                        "\033",
                                        "=*1.3\n",
                                        "=+96\n",
                                        "=1\n",
                                        "g\025crown 0.5 2 0.5\n",
                                        "g\025uniform 1\n",
                                        "g\025reverse 3 1\n",
                                        "g\025broken\n",
                                        "R",
                                        "r",
                                        "M",
                                        "i",
                                        "~",
                                        "y",
                                        "p",
                                        "G",
                                        "D13.5\n",
                                        "$",
                                        "0"};

    const char *edit = edits[desk_random(seed) % (sizeof edits / sizeof *edits)];

    if (edit[0] == 'g' && desk_app.design->lane > LANE_HEADS)
        edit++; // no dialog opens: the letters would be commands
    if (edit[0] != '\025')
        desk_keys(edit);
}

void desk_setup(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    runs_set_dir(t_path("runs"));
}

int desk_release(void **state)
{
    (void)state;
    app_release(&desk_app);
    canvas_release(&desk_canvas);
    return 0;
}
