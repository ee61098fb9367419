#!/bin/sh
# mimalloc_from_source.sh FOLDER: mimalloc of Debian's source package, compiled into FOLDER/mimalloc.o with its malloc in malloc's
# place: Debian packages it as a shared library only, and programs link it in.
set -eu
folder=$1
[ ! -f "$folder/mimalloc.o" ] || exit 0
source=$("$(dirname "$0")/../../tools/debian_source.sh" mimalloc "$folder")
cc -O2 -g -w -DMI_MALLOC_OVERRIDE=1 -DNDEBUG -I"$source/include" -c "$source/src/static.c" -o "$folder/mimalloc.made.o"
mv "$folder/mimalloc.made.o" "$folder/mimalloc.o"
