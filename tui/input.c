#include "tui/input.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/utf8.h"

enum { ESC = 0x1b, BEL = 0x07, MAX_SEQUENCE = 256 };
enum { MIN_TEXT = 24, MIN_DISTINCT = 10 }; // bytes in one read that nobody typed

// Results of the parsers below besides a key.
enum { NEED_MORE = -1, SWALLOWED = 0 };

static const char paste_start[] = "\033[200~";
static const char paste_end[] = "\033[201~";

static int tilde_key(int number)
{
    static const struct {
        int number, key;
    } keys[] = {
        {1, K_HOME}, {2, SWALLOWED}, {3, K_DELETE}, {4, K_END}, {5, K_PGUP}, {6, K_PGDN},
        {7, K_HOME}, {8, K_END},     {11, K_F1},    {12, K_F2}, {13, K_F3},  {14, K_F4},
        {15, K_F5},  {17, K_F6},     {18, K_F7},    {19, K_F8}, {20, K_F9},  {21, K_F10},
    };

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].number == number)
            return keys[i].key;
    return SWALLOWED;
}

static int letter_key(char c)
{
    switch (c) {
    case 'A':
        return K_UP;
    case 'B':
        return K_DOWN;
    case 'C':
        return K_RIGHT;
    case 'D':
        return K_LEFT;
    case 'H':
        return K_HOME;
    case 'F':
        return K_END;
    case 'Z':
        return K_BACKTAB;
    case 'M':
        return K_ENTER;
    }
    return c >= 'P' && c <= 'S' ? K_F1 + (c - 'P') : SWALLOWED;
}

// "ESC [ < buttons ; column ; row M", m for a release. Bits of buttons: 0-1 which, 2 shift, 5 moves,
// 6 wheel. Motion without a button is not asked for and not of use.
static int parse_mouse(struct input *in, const char *s, size_t n)
{
    char text[32], final;
    int bits, col, row;

    if (n >= sizeof text)
        return SWALLOWED;
    memcpy(text, s, n);
    text[n] = 0;
    if (sscanf(text, "%d;%d;%d%c", &bits, &col, &row, &final) != 4 || bits < 0 || col < 1 ||
        row < 1 || col > 9999 || row > 9999 || (final != 'M' && final != 'm'))
        return SWALLOWED;
    in->mouse = (struct mouse){.shift = bits & 4, .row = row - 1, .col = col - 1};
    if (bits & 64) {
        if (final == 'm' || (bits & 3) > 1)
            return SWALLOWED; // sideways
        in->mouse.kind = MOUSE_WHEEL;
        in->mouse.wheel = bits & 3 ? -1 : 1;
        return K_MOUSE;
    }
    if ((bits & 3) == 3 || bits > 63)
        return SWALLOWED;
    in->mouse.kind = final == 'm' ? MOUSE_RELEASE : bits & 32 ? MOUSE_DRAG : MOUSE_PRESS;
    in->mouse.button = bits & 3;
    return K_MOUSE;
}

// "ESC [ parameters final". *used is the sequence's length.
static int parse_csi(struct input *in, const char *s, size_t n, size_t *used)
{
    size_t i = 2;

    if (n > 2 && s[2] == '[') { // Linux console: ESC [ [ A is F1
        if (n < 4)
            return NEED_MORE;
        *used = 4;
        return s[3] >= 'A' && s[3] <= 'E' ? K_F1 + (s[3] - 'A') : SWALLOWED;
    }
    while (i < n && s[i] >= 0x20 && s[i] < 0x40)
        i++;
    if (i >= n && n < MAX_SEQUENCE)
        return NEED_MORE;
    *used = i;
    if (i >= n || s[i] < 0x40 || s[i] > 0x7e)
        return SWALLOWED; // broken off: what follows is read afresh
    *used = i + 1;
    if (s[i] == 'M' && i == 2) { // an old mouse report has three bytes more
        *used = 6;
        return n < 6 ? NEED_MORE : SWALLOWED;
    }
    if (s[2] == '<')
        return parse_mouse(in, s + 3, i + 1 - 3);
    if (s[2] > '<' && s[2] <= '?')
        return SWALLOWED; // answers to queries
    if (s[i] == '~' && atoi(s + 2) == 200) {
        in->in_paste = true;
        buf_reset(&in->paste);
        return SWALLOWED;
    }
    if (s[i] == '~')
        return tilde_key(atoi(s + 2));
    if (s[i] >= 'P' && s[i] <= 'S' && i > 2 && atoi(s + 2) != 1)
        return SWALLOWED; // F1 is "1;2P", a report of the cursor's place "24;80R"
    return s[i] == 'M' ? SWALLOWED : letter_key(s[i]);
}

static int parse_escape(struct input *in, const char *s, size_t n, size_t *used, int age_ms)
{
    *used = 1;
    if (n == 1)
        return age_ms >= INPUT_ESC_MS ? K_ESC : NEED_MORE;
    switch (s[1]) {
    case '[':
        return parse_csi(in, s, n, used);
    case 'O':
        *used = 3;
        return n < 3 ? NEED_MORE : letter_key(s[2]);
    case ']':
    case 'P':
    case '_':
    case '^':
    case 'X':
        *used = 2;
        in->in_string = true;
        return SWALLOWED;
    }
    if (s[1] >= '1' && s[1] <= '9') { // Esc then digit: for terminals that keep F-keys
        *used = 2;
        return K_F1 + (s[1] - '1');
    }
    return K_ESC;
}

static int parse_char(const char *s, size_t n, size_t *used)
{
    unsigned char c = (unsigned char)s[0];
    size_t len = c < 0xc2 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 1;
    const char *end = s;
    uint32_t ch;

    *used = 1;
    if (c == '\r' || c == '\n')
        return K_ENTER;
    if (c == '\t')
        return K_TAB;
    if (c == 0x7f || c == '\b')
        return K_BACKSPACE;
    if (c < 0x80)
        return c;
    if (n < len)
        return NEED_MORE;
    ch = utf8_next(&end);
    *used = (size_t)(end - s);
    return ch == 0xfffd || utf8_width(ch) < 0 ? SWALLOWED : (int)ch;
}

static void keep_paste(struct input *in, size_t n)
{
    size_t room = INPUT_MAX_PASTE - in->paste.len;

    buf_add(&in->paste, in->raw.data, n < room ? n : room);
    buf_consume(&in->raw, n);
}

static int parse_paste(struct input *in)
{
    size_t end_len = sizeof paste_end - 1;
    char *end = memmem(in->raw.data, in->raw.len, paste_end, end_len);

    if (end) {
        keep_paste(in, (size_t)(end - in->raw.data));
        buf_consume(&in->raw, end_len);
        in->in_paste = false;
        return K_PASTE;
    }
    if (in->raw.len > end_len) // the last bytes may be the start of the end mark
        keep_paste(in, in->raw.len - end_len);
    return NEED_MORE;
}

// OSC, DCS and the like end with BEL or ESC backslash.
static int skip_string(struct input *in)
{
    for (size_t i = 0; i < in->raw.len; i++) {
        if (in->raw.data[i] != BEL && in->raw.data[i] != ESC)
            continue;
        if (in->raw.data[i] == ESC && i + 1 >= in->raw.len) {
            buf_consume(&in->raw, i);
            return NEED_MORE;
        }
        if (in->raw.data[i] == ESC && in->raw.data[i + 1] == '\\')
            i++;
        else if (in->raw.data[i] == ESC)
            i--; // another sequence starts here
        buf_consume(&in->raw, i + 1);
        in->in_string = false;
        return SWALLOWED;
    }
    buf_reset(&in->raw);
    return NEED_MORE;
}

static int parse(struct input *in, int age_ms)
{
    size_t used = 0;
    int key;

    if (in->in_paste)
        return parse_paste(in);
    if (in->in_string)
        return skip_string(in);
    key = in->raw.data[0] == ESC ? parse_escape(in, in->raw.data, in->raw.len, &used, age_ms)
                                 : parse_char(in->raw.data, in->raw.len, &used);
    if (key != NEED_MORE)
        buf_consume(&in->raw, used);
    return key;
}

void input_feed(struct input *in, const void *bytes, size_t n)
{
    buf_add(&in->raw, bytes, n);
}

static bool is_text(const unsigned char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((s[i] < 0x20 && s[i] != '\t' && s[i] != '\r' && s[i] != '\n') || s[i] == 0x7f)
            return false;
    return true;
}

// Keys held down, or typed ahead while the line was slow, are few or much the same.
static bool is_more_than_typed(const unsigned char *s, size_t n)
{
    bool seen[256] = {false};
    int distinct = 0;

    for (size_t i = 0; i < n; i++) {
        distinct += !seen[s[i]];
        seen[s[i]] = true;
    }
    return n >= MIN_TEXT && distinct >= MIN_DISTINCT;
}

static bool has_lines(const char *s, size_t n)
{
    while (n > 0 && (s[n - 1] == '\r' || s[n - 1] == '\n'))
        n--;
    return memchr(s, '\r', n) || memchr(s, '\n', n);
}

void input_feed_read(struct input *in, const void *bytes, size_t n, int age_ms, bool into_line)
{
    bool goes_on = in->was_text && age_ms < INPUT_ESC_MS; // a long text comes in pieces

    in->was_text = in->raw.len == 0 && !in->in_paste && !in->in_string && is_text(bytes, n) &&
                   (goes_on || is_more_than_typed(bytes, n)) &&
                   (goes_on || !into_line || has_lines(bytes, n));
    if (in->was_text)
        input_feed(in, paste_start, sizeof paste_start - 1);
    input_feed(in, bytes, n);
    if (in->was_text)
        input_feed(in, paste_end, sizeof paste_end - 1);
}

int input_key(struct input *in, int age_ms)
{
    while (in->raw.len > 0) {
        int key = parse(in, age_ms);

        if (key > 0)
            return key;
        if (key == NEED_MORE && age_ms < INPUT_STALE_MS)
            return 0;
        if (key == NEED_MORE) {
            buf_reset(&in->raw);
            in->in_paste = in->in_string = false;
        }
    }
    return 0;
}

int input_wait_ms(const struct input *in)
{
    if (in->raw.len == 0)
        return -1;
    return in->raw.len == 1 && in->raw.data[0] == ESC ? INPUT_ESC_MS : INPUT_STALE_MS;
}

void input_release(struct input *in)
{
    buf_release(&in->raw);
    buf_release(&in->paste);
}
