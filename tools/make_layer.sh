#!/bin/sh
# make_layer.sh FOLDER MODULE BELOW...: fills FOLDER, an include path, with links to src/MODULE and to the modules BELOW, which MODULE
# may include.
set -eu
folder=$1
shift
source=$(cd "$(dirname "$0")/.." && pwd)/src
rm -rf "$folder"
mkdir -p "$folder"
for module in "$@"; do
    if [ -d "$source/$module" ]; then # "adapters" is not a folder of src/ and gets no link
        ln -s "$source/$module" "$folder/$module"
    fi
done
