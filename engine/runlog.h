// metrics.jsonl.gz: appended in complete gzip members that hold complete lines, so that
// `zcat metrics.jsonl.gz | jq` works at any moment. A torn tail is cut when a writer opens it.
// One JSON object per line; `step` and `tokens` in each; later lines for a step win.
#ifndef ENGINE_RUNLOG_H
#define ENGINE_RUNLOG_H

#include <jansson.h>

#include "engine/buf.h"
#include "engine/err.h"

struct runlog; // writer; any thread, one at a time is not required (it locks itself)
struct runlog *runlog_open(const char *path, struct err *err);
// Buffers one line; takes the reference. Written at the next flush.
void runlog_add(struct runlog *log, json_t *line);
// Appends what is buffered as one gzip member and fsyncs. On failure (disk full) the file is cut
// back to its last complete member, the lines stay buffered and -1 is returned.
int runlog_flush(struct runlog *log, struct err *err);
int runlog_close(struct runlog *log, struct err *err); // flushes

// Reader that follows a growing file; never blocks and never reads a byte twice.
struct runlog_reader {
    char path[512];
    long long offset;   // of the next unread member
    struct buf pending; // compressed bytes of an incomplete member
};
void runlog_reader_init(struct runlog_reader *r, const char *path);
// Calls fn for every new complete line. Returns the number of lines, -1 on an error; a missing file
// is 0 lines. Lines that are not JSON objects are skipped and counted in *bad (may be NULL).
int runlog_poll(struct runlog_reader *r, void (*fn)(void *user, const json_t *line), void *user,
                int *bad, struct err *err);
void runlog_reader_release(struct runlog_reader *r);

#endif
