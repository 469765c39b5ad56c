# An engine module may include only modules that stand earlier in ENGINE_ORDER. A file belongs to
# the module whose name is the longest prefix of its own: spec_table.c to spec, cmd_*.c to cli.
BEGIN {
    n = split(order, names, " ")
    for (i = 1; i <= n; i++)
        rank[names[i]] = i
}
function module(file,    base, i, best) {
    base = file
    sub(/.*\//, "", base)
    sub(/\.[ch]$/, "", base)
    if (base ~ /^cmd_/)
        return "cli"
    best = ""
    for (i = 1; i <= n; i++)
        if ((base == names[i] || index(base, names[i] "_") == 1) && length(names[i]) > length(best))
            best = names[i]
    return best
}
FNR == 1 {
    mine = module(FILENAME)
    if (mine == "") {
        print FILENAME ": not in ENGINE_ORDER"
        bad = 1
    }
}
/^#include "engine\// {
    split($0, part, "\"")
    theirs = module(part[2])
    if (theirs != mine && (theirs == "" || rank[theirs] > rank[mine])) {
        print FILENAME ":" FNR ": " mine " may not include " part[2]
        bad = 1
    }
}
END { exit bad }
