#!/bin/sh
# configure.sh FOLDER [MESON OPTION...]: creates a build folder with these options, or, if it exists, changes these options in it.
set -eu
folder=$1
shift
cd "$(dirname "$0")/.."
. tools/python_path.sh

quietly() { # shows the output of a command only if it fails
    "$@" >"$folder.log" 2>&1 || {
        cat "$folder.log"
        exit 1
    }
    rm -f "$folder.log"
}

if [ ! -f "$folder/build.ninja" ]; then
    quietly meson setup "$folder" "$@"
elif [ $# -gt 0 ]; then
    quietly meson configure "$folder" "$@"
fi
quietly ninja -C "$folder" build.ninja
