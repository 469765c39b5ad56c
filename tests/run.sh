#!/bin/sh
# Runs test programs (all, or those named) and adds up their TAP lines.
# usage: tests/run.sh BUILD_DIR [t_name]...
# A program that dies or exits non-zero without a "not ok" line counts as one failure.
build=$1
shift
[ $# -gt 0 ] || set -- $(cd tests && ls t_*.c t_*.sh 2>/dev/null | sed 's/\.c$//')
passed=0 failed=0 skipped=0
export CMOCKA_MESSAGE_OUTPUT=TAP LATHE_BUILD=$build LATHE=$PWD/$build/lathe
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1} LSAN_OPTIONS=suppressions=tests/lsan.supp
export TSAN_OPTIONS=${TSAN_OPTIONS:-suppressions=tests/tsan.supp}
for t; do
    case $t in
    *.sh) cmd="sh tests/$t" log=$build/tests/$t.log ;;
    *) cmd="$build/tests/$t" log=$build/tests/$t.log ;;
    esac
    start=$(date +%s)
    timeout -k 10 "${TEST_TIMEOUT:-600}" $cmd >"$log" 2>&1
    rc=$?
    # cmocka 1.1.5 prints a skipped test as "not ok N # SKIP name"
    skip=$(grep -c '^\(not \)\{0,1\}ok .*# SKIP' "$log")
    ok=$(grep '^ok ' "$log" | grep -vc '# SKIP')
    bad=$(grep '^not ok ' "$log" | grep -vc '# SKIP')
    if [ $rc -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
    if [ $rc -eq 0 ] && [ $((ok + skip)) -eq 0 ] && [ "$bad" -eq 0 ]; then bad=1; echo "$t ran no test" >>"$log"; fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    took=$(($(date +%s) - start))
    if [ "$bad" -eq 0 ]; then
        echo "  PASS $t ($ok tests, ${took}s)"
        [ "$skip" -eq 0 ] || grep '# SKIP' "$log" | sed 's/^.*# /       /'
    else
        tail -n 60 "$log"
        echo "  FAIL $t ($bad of $((ok + bad)), exit $rc, log $log)"
    fi
done
[ $skipped -eq 0 ] || echo "skipped: $skipped"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
