// What was drawn and not saved survives the workbench: each changed design is kept in a file of its
// own while it differs from what it was opened or saved as, and comes back as a tab after a hang-up, a
// kill or a crash. The files are profiles, in $XDG_STATE_HOME/lathe/unsaved (~/.local/state/…). UI
// thread only.
#ifndef TUI_RECOVER_H
#define TUI_RECOVER_H

#include <stdbool.h>

struct app;
struct design;

enum {
    RECOVER_MS = 300,        // after the last key
    RECOVER_LATEST_MS = 1000 // after the change, while keys keep coming
};

char *recover_directory(void); // "" when there is no home; caller frees
bool recover_due(const struct app *app); // there are changes that are in no file yet
// Writes these, and removes the files of designs that are saved or closed by now. Nothing is synced: it
// is against the end of this process, not of the machine. A message says once when it is not possible.
void recover_keep(struct app *app);
void recover_forget(struct app *app); // the person left on purpose
void recover_remove(const struct design *d); // the one of a design that is closed

// Opens what processes left that are gone, as far as there are tabs. How many; files that cannot be
// read stay and are counted.
int recover_adopt(struct app *app, int *unreadable);

#endif
