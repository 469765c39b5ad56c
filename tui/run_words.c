#include "tui/run_words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/buf.h"
#include "kernels/bug.h"
#include "tui/ticks.h"

struct state_words {
    char mark;
    enum role role;
};

static const struct state_words words[] = {
    [RUN_NEW] = {'.', ROLE_DIM},       [RUN_STARTING] = {'~', ROLE_TITLE},
    [RUN_RUNNING] = {'*', ROLE_TITLE}, [RUN_PAUSED] = {'=', ROLE_WARN},
    [RUN_STOPPED] = {'-', ROLE_TEXT},  [RUN_DONE] = {'+', ROLE_TEXT},
    [RUN_FAILED] = {'!', ROLE_ERROR},  [RUN_LOST] = {'?', ROLE_WARN},
};

char run_mark(enum run_state s)
{
    return words[s].mark;
}

enum role run_role(enum run_state s)
{
    return words[s].role;
}

static char *unknown(char *out)
{
    return strcpy(out, "—");
}

char *word_number(char *out, double v, int decimals)
{
    if (isnan(v))
        return unknown(out);
    if (isfinite(v) && fabs(v) >= 1e6)
        return word_count(out, v);
    snprintf(out, WORD_SIZE, "%.*f", decimals, v);
    return out;
}

char *word_ppl(char *out, double v)
{
    if (fabs(v) >= 10000)
        return word_count(out, v);
    return word_number(out, v, fabs(v) < 100 ? 2 : 1);
}

char *word_small(char *out, double v)
{
    char text[TICK_TEXT];

    if (!isfinite(v))
        return word_number(out, v, 0);
    tick_number(text, 7, v, fabs(v) / 99);
    return strcpy(out, text);
}

char *word_count(char *out, double v)
{
    if (isnan(v))
        return unknown(out);
    if (!isfinite(v))
        snprintf(out, WORD_SIZE, "%f", v);
    else
        tick_number(out, 8, v, v < 1000 ? 1 : fabs(v) / 150);
    return out;
}

char *word_percent(char *out, double share)
{
    if (!isfinite(share))
        return unknown(out);
    snprintf(out, WORD_SIZE, "%.0f %%", floor(share * 100)); // 100 % is the end, not nearly
    return out;
}

char *word_age(char *out, double s)
{
    static const struct {
        double below, unit;
        char name;
    } steps[] = {{60, 10, 's'}, {3600, 60, 'm'}, {2 * 86400., 3600, 'h'}, {1e12, 86400, 'd'}};

    if (!isfinite(s))
        return unknown(out);
    s = s < 0 ? 0 : s;
    for (int i = 0; i < 4; i++)
        if (s < steps[i].below) {
            // seconds in tens: an age that ticks draws the eye and costs bytes
            snprintf(out, WORD_SIZE, "%.0f %c", floor(s / steps[i].unit) * (i == 0 ? 10 : 1),
                     steps[i].name);
            return out;
        }
    return unknown(out);
}

char *word_time(char *out, double t, double now)
{
    time_t when = (time_t)t;
    struct tm tm;
    const char *format = fabs(t - now) < 20 * 3600.   ? "%H:%M"
                         : fabs(t - now) < 6 * 86400. ? "%a %H:%M"
                                                      : "%Y-%m-%d";

    if (!isfinite(t) || fabs(t) > 1e11 || !localtime_r(&when, &tm))
        return unknown(out);
    if (strftime(out, WORD_SIZE, format, &tm) == 0)
        return unknown(out);
    return out;
}
