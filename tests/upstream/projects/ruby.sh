#!/bin/sh
# ruby.sh: Ruby's own tests of the language and its core classes, one file each, by Debian's ruby.
set -eu
folder=$2
case $1 in
packages) echo ruby ruby-test-unit ;;
prepare)
    made=$("$(dirname "$0")/../../../tools/debian_source.sh" ruby3.1 "$folder")
    ln -sfn "$made" "$folder/source"
    ;;
list) (cd "$folder/source/test/ruby" && printf '%s\n' test_*.rb | grep -v jit) ;; # those run a C compiler for minutes
run)
    cd "$folder/source"
    ruby -I tool/lib -I test/lib test/runner.rb --ruby=ruby "test/ruby/$3" 2>/dev/null | grep -E '^[0-9]+ tests' |
        sed 's/, [0-9]* assertions//' # their number depends on the time some tests wait
    ;;
esac
