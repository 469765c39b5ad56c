// What two designs are held against each other by: budgets, depth, widths (objection A3 of the notes),
// one row each. Any thread.
#ifndef ENGINE_LEDGER_H
#define ENGINE_LEDGER_H

#include <stdbool.h>

#include "engine/count.h"
#include "engine/spec.h"

enum { LEDGER_ROWS = 15 };

const char *ledger_name(int row); // "params", "ffn-mean"
const char *ledger_what(int row); // "parameters, all"
// Whether a difference of this row is a confound (confound.h); the others follow from the shape.
bool ledger_confounds(int row);
double ledger_value(int row, const struct spec *spec, const struct count *c);
// "181,906,688", "43.4GiB"; out: UNIT_SIZE bytes, returned.
char *ledger_text(int row, double value, char *out);

#endif
