// All keys of the profile as a list over Design, made from the key table: sections, values, units,
// origins; the key under the cursor explained below. Values are typed in the one-line input, with
// their errors and effects shown while typing. UI thread only.
#ifndef TUI_FORM_H
#define TUI_FORM_H

#include "engine/spec.h"
#include "tui/list.h"

enum { FORM_HINT = 256, FORM_ROWS = SPEC_MAX_KEYS + 16 };

struct form { // zero-initialise
    struct list list;
    short row[FORM_ROWS]; // index into spec_keys[]; ~index of its first key for a heading
    char filter[64];      // only keys with this in their name or help
    char hint[FORM_HINT]; // in place of the help of the key: what is wrong, what else moved
    bool hint_is_error;
};

#endif
