#!/bin/sh
# mimalloc_from_source.sh FOLDER: compiles mimalloc from Debian's source package into FOLDER/mimalloc.o. In a program that is linked with
# mimalloc.o, mimalloc's malloc replaces that of the C library. Debian's binary package has only the shared library.
set -eu
folder=$1
[ ! -f "$folder/mimalloc.o" ] || exit 0
source=$("$(dirname "$0")/../../tools/debian_source.sh" mimalloc "$folder")
cc -O2 -g -w -DMI_MALLOC_OVERRIDE=1 -DNDEBUG -I"$source/include" -c "$source/src/static.c" -o "$folder/mimalloc.made.o"
mv "$folder/mimalloc.made.o" "$folder/mimalloc.o"
