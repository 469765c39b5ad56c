#include "tui/keys.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tui/utf8.h"

// Lower case is harmless, upper case changes or ends something. Every F-key has a letter.
const struct key_binding key_table[] = {
    // context, command, keys, shown, label, rank, group, help
    {CTX_GLOBAL, CMD_HELP, '?', K_F1, 0, "? F1", "Help", 1, "everywhere", "this page"},
    {CTX_GLOBAL, CMD_SCREEN_DESIGN, '1', K_F2, 0, "1 F2", NULL, 0, "everywhere",
     "Design: draw the layers"},
    {CTX_GLOBAL, CMD_SCREEN_MONITOR, '2', K_F3, 0, "2 F3", NULL, 0, "everywhere",
     "Monitor: watch a run"},
    {CTX_GLOBAL, CMD_SCREEN_RUNS, '3', K_F4, 0, "3 F4", NULL, 0, "everywhere",
     "Runs: all runs of this project"},
    {CTX_GLOBAL, CMD_REPAINT, K_CTRL('L'), 0, 0, "Ctrl-L", NULL, 0, "everywhere",
     "paint the whole screen again"},
    {CTX_GLOBAL, CMD_SUSPEND, K_CTRL('Z'), 0, 0, "Ctrl-Z", NULL, 0, "everywhere",
     "back to the shell; fg returns"},
    {CTX_GLOBAL, CMD_MOUSE, K_CTRL('T'), 0, 0, "Ctrl-T", NULL, 0, "everywhere",
     "mouse on or off; off, the terminal selects text"},
    {CTX_GLOBAL, CMD_CANCEL, K_ESC, 0, 0, "Esc", NULL, 0, "everywhere", "one step back"},
    {CTX_GLOBAL, CMD_QUIT, 'q', 0, 0, "q", "Quit", 2, "everywhere",
     "leave the workbench; runs go on"},

    {CTX_GLOBAL, CMD_LEFT, 'h', K_LEFT, 0, "h Left", NULL, 0, "move", "left"},
    {CTX_GLOBAL, CMD_RIGHT, 'l', K_RIGHT, 0, "l Right", NULL, 0, "move", "right"},
    {CTX_GLOBAL, CMD_DOWN, 'j', K_DOWN, 0, "j Down", NULL, 0, "move", "down"},
    {CTX_GLOBAL, CMD_UP, 'k', K_UP, 0, "k Up", NULL, 0, "move", "up"},
    {CTX_GLOBAL, CMD_FIRST, '0', K_HOME, 0, "0 Home", NULL, 0, "move", "first"},
    {CTX_GLOBAL, CMD_LAST, '$', K_END, 0, "$ End", NULL, 0, "move", "last"},
    {CTX_GLOBAL, CMD_PAGE_DOWN, K_CTRL('D'), K_PGDN, 0, "Ctrl-D PgDn", NULL, 0, "move",
     "a page down"},
    {CTX_GLOBAL, CMD_PAGE_UP, K_CTRL('U'), K_PGUP, 0, "Ctrl-U PgUp", NULL, 0, "move", "a page up"},
    {CTX_GLOBAL, CMD_NEXT_LANE, K_TAB, 0, 0, "Tab", NULL, 0, "move", "next lane or pane"},
    {CTX_GLOBAL, CMD_PREV_LANE, K_BACKTAB, 0, 0, "S-Tab", NULL, 0, "move", "previous lane or pane"},

    {CTX_DESIGN, CMD_LEFT, 'h', K_LEFT, 0, "h Left", NULL, 0, "move", "previous layer"},
    {CTX_DESIGN, CMD_RIGHT, 'l', K_RIGHT, 0, "l Right", NULL, 0, "move", "next layer"},
    {CTX_DESIGN, CMD_FIRST, '0', K_HOME, 0, "0 Home", NULL, 0, "move", "first layer"},
    {CTX_DESIGN, CMD_LAST, '$', K_END, 0, "$ End", NULL, 0, "move", "last layer"},
    {CTX_DESIGN, CMD_NEXT_LANE, K_TAB, 0, 0, "Tab", "Lane", 6, "move",
     "next lane: FFN width, heads, kv heads, reuse"},
    {CTX_DESIGN, CMD_PREV_LANE, K_BACKTAB, 0, 0, "S-Tab", NULL, 0, "move", "previous lane"},
    {CTX_DESIGN, CMD_STEP_UP, 'k', K_UP, 0, "k Up", "Raise", 3, "change",
     "raise by one legal step"},
    {CTX_DESIGN, CMD_STEP_DOWN, 'j', K_DOWN, 0, "j Down", "Lower", 4, "change",
     "lower by one legal step"},
    {CTX_DESIGN, CMD_STEP_UP4, 'K', K_PGUP, K_CTRL('U'), "K PgUp Ctrl-U", NULL, 0, "change",
     "raise by four steps"},
    {CTX_DESIGN, CMD_STEP_DOWN4, 'J', K_PGDN, K_CTRL('D'), "J PgDn Ctrl-D", NULL, 0, "change",
     "lower by four steps"},
    {CTX_DESIGN, CMD_SET_VALUE, '=', 0, 0, "=", "Set", 9, "change",
     "type a value: 2304, *1.1, +256; 0 takes the part away"},
    {CTX_DESIGN, CMD_GENERATOR, 'g', 0, 0, "g", "Shape", 8, "change",
     "a generator for the whole lane, with preview"},
    {CTX_DESIGN, CMD_DIGITS, 'D', 0, 0, "D", NULL, 0, "change",
     "draw with digits: each sets a layer to so many tenths"},
    {CTX_DESIGN, CMD_RAMP, 'i', 0, 0, "i", NULL, 0, "change",
     "a straight line through the range (or the whole lane)"},
    {CTX_DESIGN, CMD_REVERSE, 'r', 0, 0, "r", NULL, 0, "change", "reverse it"},
    {CTX_DESIGN, CMD_MIRROR, 'M', 0, 0, "M", NULL, 0, "change",
     "mirror its first half onto the second"},
    {CTX_DESIGN, CMD_SMOOTH, '~', 0, 0, "~", NULL, 0, "change", "smooth it"},
    {CTX_DESIGN, CMD_COPY, 'y', 0, 0, "y", NULL, 0, "change", "copy the range"},
    {CTX_DESIGN, CMD_PASTE, 'p', 0, 0, "p", NULL, 0, "change",
     "paste here, or stretched into the selection"},
    {CTX_DESIGN, CMD_GATES, 'G', 0, 0, "G", NULL, 0, "change",
     "skip-the-middle gates on or off"},
    {CTX_DESIGN, CMD_LOCK, 'L', 0, 0, "L", NULL, 0, "change",
     "lock layers: no edit moves them; or unlock"},
    {CTX_DESIGN, CMD_MATCH, 'm', 0, 0, "m", "Match", 5, "budget",
     "move what is not locked onto the budget, with preview"},
    {CTX_DESIGN, CMD_BUDGET, 'b', 0, 0, "b", "Budget", 9, "budget",
     "set it: params 180M, flops reference, none"},
    {CTX_DESIGN, CMD_HOLD, 'B', 0, 0, "B", NULL, 0, "budget",
     "hold it: the other layers make up for every edit"},
    {CTX_DESIGN, CMD_FORM, 'e', 0, 0, "e", "Keys", 6, "change",
     "all keys of the profile: d_model, layers, lr, data, …"},
    {CTX_DESIGN, CMD_UNDO, 'u', 0, 0, "u", "Undo", 7, "change", "undo"},
    {CTX_DESIGN, CMD_REDO, K_CTRL('R'), 0, 0, "Ctrl-R", NULL, 0, "change", "redo"},
    {CTX_DESIGN, CMD_HISTORY, 'U', 0, 0, "U", NULL, 0, "change",
     "all edits so far, to walk through"},
    {CTX_DESIGN, CMD_SELECT, 'v', 0, 0, "v", "Select", 10, "select",
     "start or end a range of layers"},
    {CTX_DESIGN, CMD_SELECT_ALL, 'V', 0, 0, "V", NULL, 0, "select", "all layers"},
    {CTX_DESIGN, CMD_CANCEL, K_ESC, 0, 0, "Esc", NULL, 0, "select", "no selection"},
    {CTX_DESIGN, CMD_NONE, 0, 0, 0, "Drag", NULL, 0, "mouse", "draw the lane freehand"},
    {CTX_DESIGN, CMD_NONE, 0, 0, 0, "Right drag", NULL, 0, "mouse",
     "a straight line; also Shift and drag"},
    {CTX_DESIGN, CMD_NONE, 0, 0, 0, "Wheel", NULL, 0, "mouse", "one legal step of the layer below it"},
    {CTX_DESIGN, CMD_NONE, 0, 0, 0, "Click", NULL, 0, "mouse",
     "on a number below the bars: go there; drag to select"},
    {CTX_DESIGN, CMD_PREV_TAB, '[', 0, 0, "[", NULL, 0, "designs", "the design before this one"},
    {CTX_DESIGN, CMD_NEXT_TAB, ']', 0, 0, "]", "Next", 14, "designs", "the next design"},
    {CTX_DESIGN, CMD_NEW_TAB, 'T', 0, 0, "T", NULL, 0, "designs",
     "one more: a profile, or a copy of this one"},
    {CTX_DESIGN, CMD_CLOSE_TAB, 'X', 0, 0, "X", NULL, 0, "designs", "close this one"},
    {CTX_DESIGN, CMD_CONTROLS, 'c', 0, 0, "c", NULL, 0, "designs",
     "controls: reversed, permuted, averaged, the uniform grid"},
    {CTX_DESIGN, CMD_COMPARE, 'C', 0, 0, "C", "Compare", 12, "designs",
     "all of them: overlay, side by side, layers, ledger"},
    {CTX_DESIGN, CMD_PIN, 'R', 0, 0, "R", "Reference", 12, "keep",
     "make this the reference all % compare with"},
    {CTX_DESIGN, CMD_SAVE, 'w', 0, 0, "w", "Save", 11, "keep", "save the profile"},
    {CTX_DESIGN, CMD_SAVE_AS, 'W', 0, 0, "W", NULL, 0, "keep", "save under another name"},
    {CTX_DESIGN, CMD_OPEN, 'O', 0, 0, "O", "Open", 13, "keep", "open another profile"},
    {CTX_DESIGN, CMD_ESTIMATE, 't', 0, 0, "t", "Cost", 13, "keep",
     "measure what training this costs here: speed, time, memory"},
    {CTX_DESIGN, CMD_LAUNCH, K_ENTER, 0, 0, "Enter", "Train", 5, "keep",
     "train this: shows what will run and asks"},

    {CTX_FORM, CMD_EDIT, K_ENTER, 'e', 0, "Enter e", "Edit", 3, "change", "type a value"},
    {CTX_FORM, CMD_RIGHT, 'l', K_RIGHT, ' ', "l Right Space", "Next choice", 5, "change",
     "next of a key's choices"},
    {CTX_FORM, CMD_LEFT, 'h', K_LEFT, 0, "h Left", NULL, 0, "change",
     "previous of a key's choices"},
    {CTX_FORM, CMD_UNDO, 'u', 0, 0, "u", "Undo", 6, "change", "undo"},
    {CTX_FORM, CMD_REDO, K_CTRL('R'), 0, 0, "Ctrl-R", NULL, 0, "change", "redo"},
    {CTX_FORM, CMD_FILTER, '/', 0, 0, "/", "Find", 7, "move",
     "only keys with this in name or help"},
    {CTX_FORM, CMD_NEXT_LANE, K_TAB, 0, 0, "Tab", NULL, 0, "move", "next section"},
    {CTX_FORM, CMD_PREV_LANE, K_BACKTAB, 0, 0, "S-Tab", NULL, 0, "move", "previous section"},
    {CTX_FORM, CMD_SAVE, 'w', 0, 0, "w", "Save", 8, "keep", "save the profile"},
    {CTX_FORM, CMD_SAVE_AS, 'W', 0, 0, "W", NULL, 0, "keep", "save under another name"},
    {CTX_FORM, CMD_PIN, 'R', 0, 0, "R", NULL, 0, "keep",
     "make this the reference all % and marks compare with"},
    {CTX_FORM, CMD_CANCEL, K_ESC, 0, 0, "Esc", "Back", 4, "keep", "all keys again, then Design"},

    {CTX_HISTORY, CMD_DOWN, 'j', K_DOWN, 0, "j Down", "Later", 3, "move", "a later state"},
    {CTX_HISTORY, CMD_UP, 'k', K_UP, 0, "k Up", "Earlier", 4, "move", "an earlier state"},
    {CTX_HISTORY, CMD_EDIT, K_ENTER, 'U', 0, "Enter U", "Stay", 5, "keep",
     "go on from this state"},
    {CTX_HISTORY, CMD_CANCEL, K_ESC, 0, 0, "Esc", "Back", 6, "keep",
     "back to the state you came from"},

    {CTX_COMPARE, CMD_NEXT_LANE, K_TAB, 0, 0, "Tab", "View", 3, "picture",
     "overlay, side by side, layers, ledger"},
    {CTX_COMPARE, CMD_PREV_LANE, K_BACKTAB, 0, 0, "S-Tab", NULL, 0, "picture", "the view before"},
    {CTX_COMPARE, CMD_METRIC, 'm', 0, 0, "m", "Lane", 4, "picture",
     "next lane: FFN width, heads, kv heads, reuse"},
    {CTX_COMPARE, CMD_PREV_TAB, '[', 0, 0, "[", NULL, 0, "designs",
     "the design before is what the others differ from"},
    {CTX_COMPARE, CMD_NEXT_TAB, ']', 0, 0, "]", "Base", 5, "designs", "the next one is"},
    {CTX_COMPARE, CMD_CONTROLS, 'c', 0, 0, "c", "Controls", 7, "designs",
     "controls: reversed, permuted, averaged, the uniform grid"},
    {CTX_COMPARE, CMD_NEW_TAB, 'T', 0, 0, "T", NULL, 0, "designs",
     "one more: a profile, or a copy of the base"},
    {CTX_COMPARE, CMD_CANCEL, K_ESC, 'C', 0, "Esc C", "Draw", 6, "designs",
     "draw the base in Design"},

    {CTX_MONITOR, CMD_PREV_RUN, '[', 0, 0, "[", "Older", 10, "run", "the run before this one"},
    {CTX_MONITOR, CMD_NEXT_RUN, ']', 0, 0, "]", "Newer", 11, "run", "the run after this one"},
    {CTX_MONITOR, CMD_CHECKPOINT, 'c', 0, 0, "c", "Checkpoint", 5, "run",
     "write a checkpoint after this step"},
    {CTX_MONITOR, CMD_PAUSE, 'P', 0, 0, "P", "Pause", 3, "run", "pause, or go on"},
    {CTX_MONITOR, CMD_STOP, 'S', 0, 0, "S", "Stop", 4, "run",
     "stop after this step, with a checkpoint (asks)"},
    {CTX_MONITOR, CMD_RESUME_RUN, 'R', 0, 0, "R", "Resume", 15, "run",
     "go on from its last checkpoint, when it has ended early"},
    {CTX_MONITOR, CMD_METRIC, 'm', 0, 0, "m", "Metric", 6, "picture",
     "next metric, or quantity of the layers"},
    {CTX_MONITOR, CMD_LAYERS, 'g', 0, 0, "g", "Layers", 8, "picture",
     "layers: gates, alpha, beta, norms; or the curves"},
    {CTX_MONITOR, CMD_AXIS, 'x', 0, 0, "x", "Axis", 7, "picture",
     "tokens, steps, hours or FLOPs across"},
    {CTX_MONITOR, CMD_ZOOM, 'z', 0, 0, "z", "Zoom", 14, "picture",
     "the height that is shown; of layers: the time"},
    {CTX_MONITOR, CMD_LOG_Y, 'o', 0, 0, "o", "Log y", 9, "picture", "logarithmic or linear height"},
    {CTX_MONITOR, CMD_SMOOTH_LINE, 'e', 0, 0, "e", "Smooth", 16, "picture",
     "a smoothed line beside the raw one: mean of 10, 100, 1000"},
    {CTX_MONITOR, CMD_ZOOM_IN, '+', '=', 0, "+ =", NULL, 0, "picture",
     "half of the x axis, around the cursor or the newest point"},
    {CTX_MONITOR, CMD_ZOOM_OUT, '-', 0, 0, "-", NULL, 0, "picture", "twice as much of it"},
    {CTX_MONITOR, CMD_PAN_LEFT, '<', 0, 0, "<", NULL, 0, "picture", "the part before"},
    {CTX_MONITOR, CMD_PAN_RIGHT, '>', 0, 0, ">", NULL, 0, "picture", "the part after"},
    {CTX_MONITOR, CMD_FIRST, '0', K_HOME, 0, "0 Home", NULL, 0, "picture", "the cursor to the start"},
    {CTX_MONITOR, CMD_LAST, '$', K_END, 0, "$ End", NULL, 0, "picture",
     "the cursor to the newest point"},
    {CTX_MONITOR, CMD_CANCEL, K_ESC, 0, 0, "Esc", NULL, 0, "picture",
     "no cursor, then the whole axis again"},
    {CTX_MONITOR, CMD_LOG, 'l', 0, 0, "l", "Log", 13, "picture", "the end of log.txt"},
    {CTX_MONITOR, CMD_LEFT, K_LEFT, 0, 0, "Left", NULL, 0, "picture",
     "the cursor with its values, left; of layers: the one before"},
    {CTX_MONITOR, CMD_RIGHT, K_RIGHT, 0, 0, "Right", NULL, 0, "picture",
     "the cursor right; the layer after"},
    {CTX_MONITOR, CMD_FREEZE, 'f', 0, 0, "f", "Freeze", 12, "picture",
     "hold the picture still; the run goes on"},

    {CTX_RUNS, CMD_WATCH, K_ENTER, 0, 0, "Enter", "Watch", 3, "run", "watch it in Monitor"},
    {CTX_RUNS, CMD_RESUME_RUN, 'R', 0, 0, "R", "Resume", 4, "run",
     "go on from its last checkpoint"},
    {CTX_RUNS, CMD_EDIT, 'E', 0, 0, "E", "Edit", 5, "run", "its profile as a new design"},
    {CTX_RUNS, CMD_DELETE, 'D', 0, 0, "D", "Delete", 6, "run", "move it to runs/.trash (asks)"},
    {CTX_RUNS, CMD_FIRST, 'g', '0', K_HOME, "g 0 Home", NULL, 0, "list", "first run"},
    {CTX_RUNS, CMD_LAST, 'G', '$', K_END, "G $ End", NULL, 0, "list", "last run"},
    {CTX_RUNS, CMD_SORT, '>', 0, 0, ">", "Sort", 7, "list", "sort by the next column"},
    {CTX_RUNS, CMD_SORT_BACK, '<', 0, 0, "<", NULL, 0, "list", "sort by the previous column"},
};

const int key_table_count = sizeof key_table / sizeof *key_table;

static bool has_key(const struct key_binding *b, int key)
{
    return key && (b->key == key || b->key2 == key || b->key3 == key);
}

static enum command find_in(enum context context, int key)
{
    for (int i = 0; i < key_table_count; i++)
        if (key_table[i].context == context && has_key(&key_table[i], key))
            return key_table[i].command;
    return CMD_NONE;
}

enum command keys_find(enum context context, int key)
{
    enum command own = find_in(context, key);

    return own != CMD_NONE ? own : find_in(CTX_GLOBAL, key);
}

char *keys_name(int key, char *out)
{
    static const char *const names[] = {
        "Up",   "Down",  "Left", "Right", "Home",  "End",       "PgUp",
        "PgDn", "Enter", "Esc",  "Tab",   "S-Tab", "Backspace", "Delete",
    };

    if (key >= K_F1 && key <= K_F10)
        snprintf(out, 16, "F%d", key - K_F1 + 1);
    else if (key == K_PASTE)
        snprintf(out, 16, "Paste");
    else if (key == ' ')
        snprintf(out, 16, "Space");
    else if (key > KEYCODE_BASE && key - K_UP < (int)(sizeof names / sizeof *names))
        snprintf(out, 16, "%s", names[key - K_UP]);
    else if (key > 0 && key < 0x20)
        snprintf(out, 16, "Ctrl-%c", key | 0x40);
    else
        out[utf8_put(out, (uint32_t)key)] = 0;
    return out;
}
