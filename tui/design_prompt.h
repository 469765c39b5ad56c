// What Design asks for in the message line, and what comes of the answers. UI thread only.
#ifndef TUI_DESIGN_PROMPT_H
#define TUI_DESIGN_PROMPT_H

#include "tui/app.h"

const char *design_hint(void); // stands below the totals while something is typed; NULL = nothing
// After an edit: what it did to the total, which was `before`, or why not.
void design_report(struct app *app, bool done, const char *why, int64_t before);

void design_ask_value(struct app *app);
void design_ask_digits(struct app *app);
void design_ask_shape(struct app *app);
void design_ask_match(struct app *app);
void design_ask_budget(struct app *app);
void design_ask_to_save(struct app *app); // where it was, or asks
void design_ask_save(struct app *app);
void design_ask_open(struct app *app);
void design_ask_tab(struct app *app);      // one more design
// Text pasted into the terminal: a list of numbers for a lane, or a whole profile as a new design.
void design_pasted(struct app *app, const char *text);
void design_ask_controls(struct app *app); // designs that belong beside this one

#endif
