// The one key table: dispatch, the bottom bar and the help screen are made from it. And what the
// mouse does, as the program sees it.
#ifndef TUI_KEYS_H
#define TUI_KEYS_H

#include <stdbool.h>

// Keys as the program sees them: Unicode code points, or these.
enum {
    KEYCODE_BASE = 0x110000,
    K_UP,
    K_DOWN,
    K_LEFT,
    K_RIGHT,
    K_HOME,
    K_END,
    K_PGUP,
    K_PGDN,
    K_ENTER,
    K_ESC,
    K_TAB,
    K_BACKTAB,
    K_BACKSPACE,
    K_DELETE,
    K_F1,
    K_F2,
    K_F3,
    K_F4,
    K_F5,
    K_F6,
    K_F7,
    K_F8,
    K_F9,
    K_F10,
    K_PASTE, // text pasted into the terminal: term_paste()
    K_MOUSE, // term_mouse_event()
};
#define K_CTRL(c) ((c)&0x1f)

struct mouse {
    enum { MOUSE_PRESS, MOUSE_DRAG, MOUSE_RELEASE, MOUSE_WHEEL } kind;
    enum { MOUSE_LEFT, MOUSE_MIDDLE, MOUSE_RIGHT } button; // not of a wheel
    int wheel;                                             // 1 up, -1 down
    bool shift;
    int row, col; // of the screen, from 0
};

enum context { CTX_GLOBAL, CTX_DESIGN, CTX_MONITOR, CTX_RUNS, CTX_FORM, CTX_HISTORY, CTX_COMPARE, CTX_COUNT };

enum command {
    CMD_NONE,
    // everywhere
    CMD_SCREEN_DESIGN,
    CMD_SCREEN_MONITOR,
    CMD_SCREEN_RUNS,
    CMD_HELP,
    CMD_QUIT,
    CMD_REPAINT,
    CMD_SUSPEND,
    CMD_MOUSE, // reports on or off
    // movement, shared by the screens
    CMD_LEFT,
    CMD_RIGHT,
    CMD_UP,
    CMD_DOWN,
    CMD_FIRST,
    CMD_LAST,
    CMD_PAGE_UP,
    CMD_PAGE_DOWN,
    CMD_NEXT_LANE,
    CMD_PREV_LANE,
    // Design
    CMD_STEP_UP,
    CMD_STEP_DOWN,
    CMD_STEP_UP4,
    CMD_STEP_DOWN4,
    CMD_SET_VALUE,
    CMD_SELECT,
    CMD_SELECT_ALL,
    CMD_CANCEL,
    CMD_GENERATOR,
    CMD_COPY,
    CMD_PASTE,
    CMD_REVERSE,
    CMD_MIRROR,
    CMD_RAMP,
    CMD_SMOOTH,
    CMD_DIGITS,
    CMD_GATES,
    CMD_HISTORY,
    CMD_PREV_TAB,
    CMD_NEXT_TAB,
    CMD_NEW_TAB,
    CMD_CLOSE_TAB,
    CMD_CONTROLS,
    CMD_COMPARE,
    CMD_LOCK,
    CMD_BUDGET,
    CMD_HOLD,
    CMD_MATCH,
    CMD_UNDO,
    CMD_REDO,
    CMD_PIN,
    CMD_SAVE,
    CMD_SAVE_AS,
    CMD_OPEN,
    CMD_ESTIMATE,
    CMD_LAUNCH,
    CMD_FORM,   // all keys of the profile
    CMD_FILTER, // in the form
    // Monitor
    CMD_PREV_RUN,
    CMD_NEXT_RUN,
    CMD_METRIC,
    CMD_AXIS,
    CMD_ZOOM,  // of the y axis
    CMD_LOG_Y, // logarithmic or linear
    CMD_SMOOTH_LINE,
    CMD_ZOOM_IN,  // of the x axis
    CMD_ZOOM_OUT,
    CMD_PAN_LEFT,
    CMD_PAN_RIGHT,
    CMD_LOG,   // the end of log.txt
    CMD_LAYERS, // gates and norms per layer, or the charts
    CMD_FREEZE,
    CMD_CHECKPOINT,
    CMD_PAUSE,
    CMD_STOP,
    // Runs
    CMD_WATCH,
    CMD_RESUME_RUN,
    CMD_EDIT,
    CMD_DELETE,
    CMD_SORT,
    CMD_SORT_BACK,
    CMD_COUNT
};

struct key_binding {
    enum context context;
    enum command command;
    int key, key2, key3; // 0 = none; all 0: a gesture of the mouse, for the help page
    const char *keys;    // as shown: "k Up"
    const char *label;   // in the bottom bar: "Value", NULL = help only
    int rank;            // in the bottom bar: 1 stays longest when the terminal is narrow
    const char *group;   // heading in help: "move", "change", …
    const char *help;    // one line
};

extern const struct key_binding key_table[];
extern const int key_table_count;

// What a key is called: "k", "Ctrl-R", "Up". Writes into out (at least 16 bytes) and returns it.
char *keys_name(int key, char *out);

// The command of a key in a context, falling back to CTX_GLOBAL.
enum command keys_find(enum context context, int key);

#endif
