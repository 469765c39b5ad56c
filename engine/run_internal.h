// Shared by the files of the run module only.
#ifndef ENGINE_RUN_INTERNAL_H
#define ENGINE_RUN_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

// Whether a process of this host holds the run's lock; *known is false when that cannot be told.
// *heartbeat is set to the time of the lock file when it is held.
bool run_is_locked(const char *dir, bool *known, double *heartbeat);

// One more than the largest n of any "<stem>-<n>" in the directory of runs or its trash.
int64_t runs_next_number(const char *stem);

#endif
