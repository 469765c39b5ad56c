// How a run's state, numbers and times read, the same on Monitor and Runs. Unknown numbers (NaN)
// are a dash, never 0. Every function writes into out and returns it. Any thread.
#ifndef TUI_RUN_WORDS_H
#define TUI_RUN_WORDS_H

#include "engine/run.h"
#include "tui/theme.h"

enum { WORD_SIZE = 64 };

char run_mark(enum run_state s); // one ASCII sign per state, so that none needs colour
enum role run_role(enum run_state s);

char *word_number(char *out, double v, int decimals); // "1.234"
char *word_ppl(char *out, double v);                  // 5.93, 311.2, 12.3k
char *word_small(char *out, double v);                // learning rates: 2.6e-4, 0.003
char *word_count(char *out, double v);                // 1.72M
char *word_percent(char *out, double share);          // "41 %"
char *word_age(char *out, double s);                  // "20 s", "12 m", "3 h", "2 d"
char *word_time(char *out, double t, double now);     // "14:05", "Wed 21:10", "2026-08-01"

#endif
