#!/bin/sh
# check_format.sh [--fix] [ROOT]: checks that every C file has the layout of .clang-format; --fix changes the files.
# Exit status 77: there is no clang-format 14.
set -eu
is_fix=
if [ "${1:-}" = --fix ]; then
    is_fix=yes
    shift
fi
cd "${1:-$(dirname "$0")/..}"
format=$(command -v clang-format-14 || command -v clang-format || true)
case $([ -z "$format" ] || "$format" --version) in
*version\ 14.*) ;;
*)
    echo "check_format: SKIP: no clang-format 14 here (other versions lay out differently)"
    exit 77
    ;;
esac
over_all_files() {
    find . \( -name 'build*' -o -name .git -o -name node_modules \) -prune -o -name '*.[ch]' -type f -print0 |
        xargs -0 -r "$format" --Werror "$@"
}
if [ -n "$is_fix" ]; then # one pass of clang-format moves only one line of a list of macro calls, so repeat, at most 8 times
    for _ in 1 2 3 4 5 6 7 8; do
        over_all_files -i
        over_all_files --dry-run 2>/dev/null && exit 0
    done
fi
over_all_files --dry-run
