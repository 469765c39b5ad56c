// What may stand over a screen: a question, a one-line input, the help page. One at a time; while
// it is open it gets all keys. Opened by the functions of app.h. UI thread only.
#ifndef TUI_DIALOG_H
#define TUI_DIALOG_H

#include "tui/canvas.h"
#include "tui/edit.h"
#include "tui/help.h"

struct app;

enum dialog_kind { DIALOG_NONE, DIALOG_CONFIRM, DIALOG_PROMPT, DIALOG_HELP };
enum { DIALOG_TITLE = 96, DIALOG_TEXT = 4096 };

struct dialog {
    enum dialog_kind kind;
    char title[DIALOG_TITLE]; // or the input's label
    char text[DIALOG_TEXT];   // of a question, lines
    int top, lines, page;     // scrolling of the text
    bool careful;             // of a question: Enter is no, only y is yes
    void (*yes)(struct app *app);
    void (*done)(struct app *app, const char *text);
    void (*changed)(struct app *app, const char *text); // NULL text: left with Esc
    struct edit edit;
    struct help help;
};

void dialog_key(struct app *app, int key, const char *paste);
// body: all between the top line and the bottom lines; line: where an input goes.
void dialog_draw(struct dialog *d, struct canvas *c, const struct rect *body,
                 const struct rect *line);

#endif
