// The command table. A command is one row (name, operands, options, help, function) in cli.c and
// one function in a cmd_*.c; usage and help texts are made from the table.
// Exit codes: 0 ok, 1 bad input, 2 usage, 3 a question answered "no", 4 the run failed,
// 143 stopped with a checkpoint.
#ifndef ENGINE_CLI_H
#define ENGINE_CLI_H

#include <jansson.h>
#include <stdbool.h>

#include "engine/err.h"
#include "engine/profile.h"

enum {
    CLI_OK = 0,
    CLI_INPUT = 1,
    CLI_USAGE = 2,
    CLI_NO = 3,
    CLI_RUN_FAILED = 4,
    CLI_STOPPED = 143
};

struct cli_option {
    const char *name; // without the dashes
    const char *arg;  // placeholder of its value, NULL for a flag
    const char *help;
};

struct cli_command {
    const char *name;               // "count", "data prepare"
    const char *operands;           // "PROFILE", "[RUN]…"
    int min_operands, max_operands; // max -1 = any number
    const char *help;
    const struct cli_option *options;                                 // ends with {NULL}
    int (*run)(const struct cli_command *cmd, int argc, char **argv); // parse with cli_* below
};

// Parsed arguments of one call.
struct cli_args {
    const char *operand[64];
    int n_operands;
    const char *set[64]; // every --set, in order
    int n_set;
    const char *value[32]; // per option row: its value ("" for a flag), NULL if absent
    const struct cli_command *cmd;
};

// Parses argv against the command's table; prints what is wrong and returns CLI_USAGE, or 0.
int cli_parse(const struct cli_command *cmd, int argc, char **argv, struct cli_args *a);
bool cli_has(const struct cli_args *a, const char *option);
const char *cli_value(const struct cli_args *a, const char *option); // NULL if absent

// Loads a profile and prints its problems on stderr. 0 or CLI_INPUT.
int cli_profile(const struct cli_args *a, const char *path, struct spec *spec);
int cli_fail(const struct err *err, int code); // prints "lathe: …" on stderr, returns code
void cli_print_json(json_t *j);                // indented, newline; takes the reference

// Exit code for a run that could not be started: refused (CLI_INPUT) or failed.
int cli_start_code(const char *run_dir);

// The commands, one function per row; defined in cmd_*.c. Prototypes stand here, rows in cli.c.
int cmd_count(const struct cli_command *cmd, int argc, char **argv);
int cmd_cost(const struct cli_command *cmd, int argc, char **argv);
int cmd_check(const struct cli_command *cmd, int argc, char **argv);
int cmd_show(const struct cli_command *cmd, int argc, char **argv);
int cmd_solve(const struct cli_command *cmd, int argc, char **argv);
int cmd_grid(const struct cli_command *cmd, int argc, char **argv);
int cmd_shape(const struct cli_command *cmd, int argc, char **argv);
int cmd_diff(const struct cli_command *cmd, int argc, char **argv);
int cmd_train(const struct cli_command *cmd, int argc, char **argv);
int cmd_probe(const struct cli_command *cmd, int argc, char **argv);
int cmd_eval(const struct cli_command *cmd, int argc, char **argv);
int cmd_sample(const struct cli_command *cmd, int argc, char **argv);
int cmd_runs(const struct cli_command *cmd, int argc, char **argv);
int cmd_watch(const struct cli_command *cmd, int argc, char **argv);
// pause, resume, stop, checkpoint
int cmd_control(const struct cli_command *cmd, int argc, char **argv);
int cmd_set(const struct cli_command *cmd, int argc, char **argv);
int cmd_delete(const struct cli_command *cmd, int argc, char **argv);
int cmd_data_prepare(const struct cli_command *cmd, int argc, char **argv);
int cmd_data_audit(const struct cli_command *cmd, int argc, char **argv);
int cmd_data_peek(const struct cli_command *cmd, int argc, char **argv);

// Runs argv[1..]; -1 when there is no command, so that the workbench should open.
int cli_main(int argc, char **argv);

#endif
