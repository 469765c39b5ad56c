// Keeps idle OpenMP workers from spinning.
//
// GNU OpenMP lets a worker that has nothing to do spin for 300,000 rounds before it sleeps, about
// 14 ms here (measured: 1.4 s of processor time per second when a region of two threads runs every
// 5 ms). On a machine with two cores that is time taken from the terminal and from every other
// process; with other work on the two cores a training step of the demo took 1,600 to 2,400 ms that
// way and 210 to 460 ms with at most 10,000 rounds. The count can only be set by the environment
// variable GOMP_SPINCOUNT, read once when the library is loaded, before any code of ours but the
// functions in .preinit_array. At that point the C library has no environment to add to yet, so one
// entry that nobody reads while libraries start is lent to the variable and put back before main.
// 1,000 rounds, about 50 us, still cover the gaps between the ops of a training step.
//
// A user's own GOMP_SPINCOUNT or OMP_WAIT_POLICY wins, and without a variable to lend nothing
// changes.
#include <stddef.h>
#include <string.h>

#if defined(__linux__) && defined(__GLIBC__) && defined(_OPENMP)

static char spin_count[] = "GOMP_SPINCOUNT=1000";
static char **lent_slot, *lent_entry;

// Runs before everything else, sanitizers included.
#define FIRST_CODE __attribute__((no_sanitize("address", "thread", "undefined")))

FIRST_CODE static int is_variable(const char *entry, const char *name)
{
    while (*name && *entry == *name) {
        entry++;
        name++;
    }
    return !*name && *entry == '=';
}

FIRST_CODE static void lend_variable(int argc, char **argv, char **envp)
{
    static const char *const lendable[] = {"_",    "OLDPWD",  "SHLVL", "PWD",  "LS_COLORS", "MAIL",
                                           "USER", "LOGNAME", "SHELL", "TERM", "LANG",      "HOME"};
    char **found = NULL;

    (void)argc;
    (void)argv;
    for (char **e = envp; *e; e++) {
        if (is_variable(*e, "GOMP_SPINCOUNT") || is_variable(*e, "OMP_WAIT_POLICY"))
            return;
        for (size_t i = 0; !found && i < sizeof lendable / sizeof lendable[0]; i++)
            if (is_variable(*e, lendable[i]))
                found = e;
    }
    if (!found)
        return;
    lent_slot = found;
    lent_entry = *found;
    *found = spin_count;
}

__attribute__((section(".preinit_array"),
               used)) static void (*const before_libraries)(int, char **, char **) = lend_variable;

// Runs after the constructors of all shared libraries.
__attribute__((constructor)) static void put_back(void)
{
    if (lent_slot)
        *lent_slot = lent_entry;
}

#else
typedef int cpu_spin_is_for_glibc_and_openmp;
#endif
