#!/bin/sh
# git.sh: recipe of run_upstream.py for git's own tests. Each test is a script that starts thousands of short processes.
set -eu
folder=$2
case $1 in
packages) echo gcc make zlib1g-dev libssl-dev libcurl4-openssl-dev libexpat1-dev gettext ;;
prepare)
    made=$("$(dirname "$0")/../../../tools/debian_source.sh" git "$folder")
    ln -sfn "$made" "$folder/source"
    cd "$folder/source"
    make -j2 NO_GETTEXT=1 NO_TCLTK=1 NO_PERL= all
    make -j2 NO_GETTEXT=1 NO_TCLTK=1 -C t/helper 2>/dev/null || make NO_GETTEXT=1 NO_TCLTK=1 t/helper/test-tool
    ;;
list) (cd "$folder/source/t" && printf '%s\n' t[0-7]*.sh | grep -v -e daemon -e httpd -e t5[57] -e cvs -e svn -e p4) ;;
run)
    cd "$folder/source/t"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    sh "./$3" --root="$scratch" 2>/dev/null | grep -E '^(ok|not ok|1\.\.)' | cksum
    ;;
esac
