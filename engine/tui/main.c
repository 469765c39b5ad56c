// Arguments decide: a command runs and ends, otherwise the workbench opens.
#include <locale.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");
    (void)argv;
    fprintf(stderr, "usage: lathe COMMAND\n");
    return argc > 1 ? 2 : 0;
}
