// Arguments decide: a command runs and ends, otherwise the workbench opens.
#include <locale.h>
#include <stdio.h>

#include "engine/cli.h"

int main(int argc, char **argv)
{
    int rc;

    setlocale(LC_CTYPE, "");
    rc = cli_main(argc, argv);
    if (rc >= 0)
        return rc;
    fprintf(stderr, "usage: lathe COMMAND\nlathe help lists the commands\n");
    return CLI_USAGE;
}
