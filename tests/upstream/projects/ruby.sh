#!/bin/sh
# ruby.sh: recipe of run_upstream.py for Ruby's own tests of the language and its core classes, run by Debian's ruby. Each test is a file.
set -eu
folder=$2
case $1 in
packages) echo ruby ruby-dev ruby-test-unit gcc ;;
prepare)
    made=$("$(dirname "$0")/../../../tools/debian_source.sh" ruby3.1 "$folder")
    ln -sfn "$made" "$folder/source"
    # With this change, the JIT compiler that generates C finds its header in the installed Ruby.
    sed -i "s/'MJIT_SEARCH_BUILD_DIR' => 'true'//" "$made/test/lib/jit_support.rb"
    ;;
list) (cd "$folder/source/test/ruby" && printf '%s\n' test_*.rb) ;;
run)
    cd "$folder/source"
    case $3 in test_yjit.rb) jit=--yjit ;; *) jit= ;; esac
    ruby $jit -I tool/lib -I test/lib test/runner.rb --ruby=ruby "test/ruby/$3" 2>/dev/null | grep -E '^[0-9]+ tests' |
        sed 's/, [0-9]* assertions//' # the number of assertions depends on how long some tests wait
    ;;
esac
