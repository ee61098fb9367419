#!/bin/sh
# configure.sh FOLDER [MESON OPTION...]: sets a build folder up the first time; later, changes the options that are given.
set -eu
folder=$1
shift
cd "$(dirname "$0")/.."
if [ ! -f "$folder/build.ninja" ]; then
    meson setup "$folder" "$@" >"$folder.log" 2>&1 || {
        cat "$folder.log"
        exit 1
    }
    rm -f "$folder.log"
elif [ $# -gt 0 ]; then
    meson configure "$folder" "$@"
fi
