// The profile being shaped: values, cursor, selection, undo, reference. Knows no screen and no
// terminal; scr_design.c draws it and turns keys into these calls. Every change recounts at once.
// UI thread only.
#ifndef TUI_DESIGN_H
#define TUI_DESIGN_H

#include <stdbool.h>

#include "engine/budget.h"
#include "engine/buf.h"
#include "engine/count.h"
#include "engine/err.h"
#include "engine/profile.h"
#include "engine/solve.h"
#include "engine/spec.h"

enum { DESIGN_WHY = 256, DESIGN_WHAT = 64 }; // bytes for a reason, for what an edit did

// One entry of the undo list. Locks belong to the design, not to the profile.
struct design_state {
    struct spec spec;
    bool locked[SPEC_MAX_LAYERS];
    bool hold; // the budget was held in it
    char what[DESIGN_WHAT]; // "ffn width of layer 3"
};

// What the design is held to or matched against.
struct design_budget {
    enum budget kind; // BUDGET_KINDS: none
    double target;
    bool follows_reference; // the target is the reference's value
};

// What stood in the profile's file when it was *spec: an undo gives it back to the letter.
struct design_text {
    struct spec spec;
    struct buf text;
};

// A line being drawn: what it has touched, and where it was last (a straight one: where it begins).
struct design_pen {
    bool down, straight;
    int layer;
    double value;
    int64_t total;              // parameters when it was put down
    int top;                    // of the scale drawn on, which stays while the pen is down
    bool mine[SPEC_MAX_LAYERS]; // layers it set
};

struct design {
    struct spec spec;
    char path[SPEC_PATH_SIZE]; // "" for the embedded default and for a run's profile
    int warnings, notes;       // of the file that was opened
    struct count count;
    struct spec reference; // all differences are against this
    struct count reference_count;
    char reference_name[SPEC_NAME_SIZE + 16];

    enum lane lane;
    int cursor;
    bool selecting;
    int anchor; // other end of the selection

    struct design_state **undo; // oldest first; [at] is the present one
    int n_undo, at;
    struct spec saved;            // what was opened or saved last
    bool unsaved;                 // stands in no file yet
    long id;                      // of all designs of this process
    long changes, kept;           // states it has had; the one that recover.h wrote, 0 = none
    struct design_text **texts;   // that were in the file at path, newest last
    int n_texts;
    bool previewing;              // spec holds a preview, not the present state
    bool locked[SPEC_MAX_LAYERS]; // layers that no edit moves
    struct design_budget budget;
    bool hold;                 // other layers make up for every edit
    int held[SPEC_MAX_LAYERS]; // FFN widths whose shape gives and takes while budget is held
    struct design_pen pen;
    long counts;               // count_model calls, for tests of the work an edit makes
};

struct design *design_new(void); // on the embedded default
void design_free(struct design *d);

// Replaces what is edited by a profile file. On failure nothing changes and err holds the first
// problem (file:line:col).
int design_open(struct design *d, const char *path, struct err *err);
// The same for a profile from elsewhere; path may be "".
void design_set_spec(struct design *d, const struct spec *spec, const char *path);

// "2 warnings, 1 note: lathe check x.yaml lists them", "" when there is none. out is returned.
char *design_remarks(const struct design *d, char *out, size_t size);

// Differs from what was opened or saved, or was never in a file.
bool design_dirty(const struct design *d);
// Saves and remembers the path. Under another file name the profile gets the name of that file,
// unless it was given another name than its file's: runs are called after it.
int design_save(struct design *d, const char *path, struct err *err);
// Whether somebody else changed the file since it was opened or saved here.
bool design_file_changed(const struct design *d);
// What a save to the file at path would change, as profile_save_changes().
int design_save_changes(const struct design *d, const char *path, bool *keeps_text);
// The shape to begin with when the present lane gets one: what it has, had before it was edited by
// hand, or else one through the first, middle and last layer. For FFN widths and heads.
void design_shape(const struct design *d, struct lane_source *out);
// Whether a key has other values in b; a number for more or fewer layers is the same.
bool design_key_differs(const struct spec_key *key, const struct spec *a, const struct spec *b);
// "--set KEY=TEXT …", quoted for a shell, that make the saved profile the present one. False when
// there is no such command.
bool design_sets(const struct design *d, struct buf *out);

void design_range(const struct design *d, int *first, int *last); // selection, or the cursor
void design_move(struct design *d, int layer);                    // clamped

// Edits of the range in the current lane. False with the reason when nothing could change; true
// with a reason (why[0]) when some layers could not.
bool design_step(struct design *d, int steps, char *why);
bool design_type(struct design *d, const char *text, char *why); // "2304", "*1.1", "+256", "-256"
// The range in the lane in hand, or the whole lane where the range is one layer. False with the reason
// when nothing changed, true with a reason when some layers could not.
enum span_op {
    SPAN_REVERSE, // the last value first
    SPAN_MIRROR,  // the second half becomes the first, reversed
    SPAN_RAMP,    // a straight line from the first value to the last
    SPAN_SMOOTH,  // a quarter of each neighbour and half of its own; the ends stay
};
bool design_span(struct design *d, enum span_op op, char *why);

struct design_copy { // zero-initialise
    enum lane lane;
    int n;
    double v[SPEC_MAX_LAYERS];
};
void design_copy(const struct design *d, struct design_copy *out); // the range
// Into the selection, stretched to its length, or from the cursor on as far as there are layers.
bool design_paste(struct design *d, const struct design_copy *c, char *why);
// "[2304, 2048]", "ffn_width: [2304, 2048]" to a copy; of the lane in hand where none is named. False
// when it is no list of numbers.
bool design_copy_parse(const struct design *d, const char *text, struct design_copy *out);
// A profile in digits from the cursor on: each sets a layer to so many tenths of top, '.' leaves it.
bool design_digits(struct design *d, const char *text, int top, char *why);
bool design_preview_digits(struct design *d, const char *text, int top, char *why);

// Drawing with a pointer in the lane in hand: from down to up is one edit. The value under the pen
// becomes the nearest legal one; layers it jumped over lie on the line to there. A straight line goes
// from where the pen was put down to where it is, and leaves the rest as it was. pen_move is false
// with the reason when nothing moved, true with a reason when some layers could not. pen_up is false
// when the line changed nothing.
void design_pen_down(struct design *d, int layer, double value, int top, bool straight);
bool design_pen_move(struct design *d, int layer, double value, char *why);
bool design_pen_up(struct design *d);
void design_pen_cancel(struct design *d);
// The whole lane from a generator; the frame of the profile applies.
bool design_generate(struct design *d, const struct lane_source *source, char *why);
// Shows the generator without making it an edit, until design_preview_end().
bool design_preview(struct design *d, const struct lane_source *source, char *why);
void design_preview_end(struct design *d);

// Sets a key of the profile from text as in --set. False with the reason; true with what else
// moved in `why`. No edit when nothing changes. why: DESIGN_WHY bytes.
bool design_set_key(struct design *d, const struct spec_key *key, const char *text, char *why);
bool design_preview_key(struct design *d, const struct spec_key *key, const char *text, char *why);

// "params 180M", "flops reference", "none". False with what was expected.
bool design_set_budget(struct design *d, const char *text, char *why);
double design_budget_target(const struct design *d);
// Turns holding on and off. False when there is no budget, or it cannot be met as it is.
bool design_hold(struct design *d, char *why);
void design_lock(struct design *d); // the range: locks, or unlocks when all of it is locked
// "[ffn|heads|depth|width|tokens] [BUDGET] [VALUE|reference]": moves what is not locked onto the
// target; what is left out is the lane's, the budget line's, the reference's. why says how near it
// came and what prevents exactness, or what was wrong.
bool design_match(struct design *d, const char *text, char *why);
bool design_preview_match(struct design *d, const char *text, char *why);

bool design_go(struct design *d, int at); // to a state of the undo list; false: there is none
bool design_undo(struct design *d);
bool design_redo(struct design *d);
void design_pin(struct design *d); // the present profile becomes the reference
void design_set_reference(struct design *d, const struct spec *spec, const char *name);

// "layer 3", "layers 2-5"
void design_range_words(const struct design *d, char *out, size_t size);
const char *lane_name(enum lane lane); // "ffn width"
// "crown 0.5 3.8 0.5" to a generator: shape and points. False with the reason.
bool shape_parse(const char *text, struct lane_source *source, char *why);
// The opposite; "list" for hand-drawn lanes. Writes at most size bytes, returns out.
char *shape_format(const struct lane_source *source, char *out, size_t size);

#endif
