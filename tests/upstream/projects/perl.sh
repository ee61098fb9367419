#!/bin/sh
# perl.sh: recipe of run_upstream.py for Perl's own tests of the language (folders of t/), run by Debian's perl. Each test is a file.
set -eu
folder=$2
case $1 in
packages) echo perl ;;
prepare)
    made=$("$(dirname "$0")/../../../tools/debian_source.sh" perl "$folder")
    ln -sfn "$made" "$folder/source"
    ln -sfn /usr/bin/perl "$folder/source/t/perl"
    ln -sfn /usr/bin/perl "$folder/source/perl"
    ;;
list) (cd "$folder/source/t" && printf '%s\n' base/*.t cmd/*.t comp/*.t io/*.t op/*.t re/*.t uni/*.t mro/*.t 2>/dev/null) ;;
run)
    cd "$folder/source/t"
    PERL_HASH_SEED=0 ./perl -I../lib "$3" 2>/dev/null | grep -E '^(ok|not ok|1\.\.)' | sed 's/ .*#/ #/' | cut -c1-60 | cksum
    ;;
esac
