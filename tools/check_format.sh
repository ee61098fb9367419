#!/bin/sh
# check_format.sh [--fix] [ROOT]: every C file is laid out as .clang-format says (--fix: make it so). 77: no clang-format 14.
set -eu
action=--dry-run
if [ "${1:-}" = --fix ]; then
    action=-i
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
find . \( -name 'build*' -o -name .git -o -name node_modules \) -prune -o -name '*.[ch]' -type f -print0 |
    xargs -0 -r "$format" --Werror "$action"
