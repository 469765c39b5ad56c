// Whole runs of a tiny model in processes of their own, for tests: the program starts itself as
// `lathe WORD…` (main() hands arguments to cli_main), so what runs is the real command.
#ifndef TESTS_HOSTED_H
#define TESTS_HOSTED_H

#include <stdbool.h>
#include <sys/types.h>

#include "engine/run.h"

enum { HOSTED_STEPS = 800 };

// Runs below t_dir(), data made of a few words, one thread.
void hosted_set_up(void);
// A new run of the tiny profile; with one more "key=value" unless it is NULL. Its directory, in a
// static ring of eight.
const char *hosted_create(const char *id, int steps);
const char *hosted_create_with(const char *id, int steps, const char *key_value);

// This program as `lathe WORD…` with output to a file; the words end with NULL. hosted_before_exec
// is called in the new process when it is set.
extern void (*hosted_before_exec)(void);
pid_t hosted_launch(const char *out, const char *const *words);
pid_t hosted_start(const char *dir);        // lathe train --resume DIR >train.txt
pid_t hosted_start_paused(const char *dir); // and pause it before it goes on
int hosted_wait_exit(pid_t pid);            // its exit code, or minus the signal
int hosted_lathe(const char *a, const char *b, const char *c); // one command >out.txt; exit code

bool hosted_file_has(const char *path, const char *text);
bool hosted_output_has(const char *name, const char *text); // of a file in t_dir()
struct run_status hosted_status_of(const char *dir);
bool hosted_command(const char *dir, const char *cmd); // over the socket; true: taken

// Fail unless two runs have the same bytes in a file, the same numbers in all records of so many
// steps.
void hosted_same_file(const char *a, const char *b, const char *rest);
void hosted_same_series(const char *a, const char *b, int steps);

#endif
