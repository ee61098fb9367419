#!/bin/sh
# make_layer.sh FOLDER MODULE BELOW...: fills FOLDER with links to src/MODULE and to the modules it may include.
set -eu
folder=$1
shift
source=$(cd "$(dirname "$0")/.." && pwd)/src
rm -rf "$folder"
mkdir -p "$folder"
for module in "$@"; do
    if [ -d "$source/$module" ]; then # adapters live elsewhere; their row only says what they may include
        ln -s "$source/$module" "$folder/$module"
    fi
done
