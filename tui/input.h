// Bytes from a terminal to keys. Knows the sequences of xterm, the Linux console, rxvt, screen and
// the VT family at once, so it does not matter what TERM says. Everything it does not know (old
// mouse reports, focus reports, answers to queries) is swallowed whole: no part of a sequence is
// ever taken for a key. Any thread.
#ifndef TUI_INPUT_H
#define TUI_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/buf.h"
#include "tui/keys.h"

enum {
    INPUT_ESC_MS = 50,      // a lone Esc waits this long for the rest of a sequence
    INPUT_STALE_MS = 1000,  // an unfinished sequence is dropped after this
    INPUT_MAX_PASTE = 65536 // bytes kept of a paste
};

struct input { // zero-initialise
    struct buf raw, paste;
    bool in_paste, in_string;
    bool was_text; // the last read was text that nobody typed
    struct mouse mouse; // of the last K_MOUSE
};

void input_feed(struct input *in, const void *bytes, size_t n);

// The same for what one read() gave, age_ms after the one before, on a terminal that may not mark
// pastes: text that nobody types at once becomes a K_PASTE. While a line is being typed
// (into_line) only text of several lines does: the rest is input either way.
void input_feed_read(struct input *in, const void *bytes, size_t n, int age_ms, bool into_line);

// The next key (Unicode, or K_* of keys.h), 0 when more bytes are needed. age_ms is the time since
// bytes last came: it decides whether a half sequence is still waited for.
int input_key(struct input *in, int age_ms);

// Milliseconds from the last byte until input_key() should be called again, -1 = nothing half-read.
int input_wait_ms(const struct input *in);
void input_release(struct input *in);

#endif
