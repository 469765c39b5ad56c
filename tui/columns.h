// Layers across: how wide each is, and the scale of their bars. Pure functions.
#ifndef TUI_COLUMNS_H
#define TUI_COLUMNS_H

struct columns {
    int bar, gap; // a layer takes bar columns and gap blanks
    int visible;  // layers that fit, at least 1
};

struct columns columns_fit(int available, int n_layers);

// The smallest of 1, 1.25, 1.5, 1.75 times a power of two that holds v: full bars, round ticks, and
// a scale that stays put while single layers move.
int columns_top(int v);
// A value of the scale in at most six columns, right-aligned in five: " 3072", "1.049M". out: 16 bytes.
void columns_scale(int v, char *out);

#endif
