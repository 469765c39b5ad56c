// metrics.jsonl.gz: appended in complete gzip members that hold complete lines, so that
// `zcat metrics.jsonl.gz | jq` works at any moment. A torn tail is cut when a writer opens it.
// One JSON object per line; `step` and `tokens` in each; later lines for a step win.
#ifndef ENGINE_RUNLOG_H
#define ENGINE_RUNLOG_H

#include <jansson.h>
#include <stdbool.h>

#include "engine/buf.h"
#include "engine/err.h"

struct runlog; // writer; any thread (it locks itself; adding never waits for the disk)
struct runlog *runlog_open(const char *path, struct err *err);
// Buffers one line; takes the reference. Written at the next flush.
void runlog_add(struct runlog *log, json_t *line);
// Appends what is buffered as one gzip member and fsyncs. On failure (disk full) the file is cut
// back to its last complete member, the lines stay buffered and -1 is returned.
int runlog_flush(struct runlog *log, struct err *err);
int runlog_close(struct runlog *log, struct err *err); // flushes

// Reader that follows a growing file; never blocks. Only an incomplete last member is read again.
struct runlog_reader {
    char path[1024];
    long long offset;         // of the next unread member
    unsigned long long inode; // of the file that offset belongs to
    int max_lines;            // a poll ends after the member that reaches it; 0 = no limit
    bool behind;              // the last poll ended early because of max_lines
    int restarts;             // times the file was replaced or became shorter: read from 0 again
};
void runlog_reader_init(struct runlog_reader *r, const char *path);
// Calls fn for every new complete line. Returns the number of lines, -1 on an error; a missing file
// is 0 lines. Lines that are not JSON objects and stretches that are no gzip member are skipped and
// counted in *bad (added to; may be NULL).
int runlog_poll(struct runlog_reader *r, void (*fn)(void *user, const json_t *line), void *user,
                int *bad, struct err *err);
void runlog_reader_rewind(struct runlog_reader *r); // the next poll starts at the first line
void runlog_reader_release(struct runlog_reader *r);

#endif
