#!/bin/sh
# check_shell.sh [ROOT]: runs shellcheck on the shell scripts outside of build folders. Exit status 77: there is no shellcheck.
set -eu
cd "${1:-$(dirname "$0")/..}"
if ! command -v shellcheck >/dev/null; then
    echo "check_shell: SKIP: no shellcheck here"
    exit 77
fi
find . -type d \( -name 'build*' -o -name .git -o -name node_modules \) -prune -o \( -name '*.sh' -o -path './.ci/run' \) -type f -print0 |
    xargs -0 -r shellcheck --severity=warning
