// What the files of design.h share: the list of states and how one is added. UI thread only.
#ifndef TUI_DESIGN_STATE_H
#define TUI_DESIGN_STATE_H

#include "tui/design.h"

void design_recount(struct design *d);
void design_back(struct design *d);                          // shows the present state again
void design_keep_cursor(struct design *d); // within the layers there are
void design_push(struct design *d, const char *what);        // spec and locked as the newest state
void design_commit(struct design *d, const char *what);      // recounts, then pushes
void design_finish_edit(struct design *d, const char *what); // commits when something changed
void design_forget_texts(struct design *d); // what stood in the file
// With the budget held: the FFN widths of the unlocked layers that are not `mine` (n_layers entries,
// NULL = none is) make up for an edit. False with the reason when they cannot; spec is then to be
// thrown away.
bool design_make_up(struct design *d, const bool *mine, char *why);
// The same from the shape that spec has now, after what changed more than single layers.
bool design_make_up_anew(struct design *d, char *why);
// Sets layers first.. of the lane in hand to the legal values nearest to v[0..n-1]; NAN leaves one,
// and locked ones stay. With the budget held the layers outside `mine` make up. False with the
// reason and spec as it was when nothing was set; true with a reason when some could not be.
bool design_set_layers(struct design *d, int first, int n, const double *v, const bool *mine,
                       char *why);
// The shape that gives and takes is the present one.
void design_hold_here(struct design *d);
// Puts the locked layers back where the present state has them.
void design_keep_locked(struct design *d);

#endif
