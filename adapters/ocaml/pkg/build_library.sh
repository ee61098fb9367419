#!/bin/sh
# build_library.sh SOURCES INCLUDE PLACE BUILT VERSION OUT OCAMLFIND...: makes the OCaml library in the folder OUT.
# PLACE: the folder where liballogram will be installed; BUILT: the folder where it was built.
set -eu
sources=$1 include=$2 place=$3 built=$4 version=$5 out=$6
shift 6
mkdir -p "$out"
cp "$sources"/pkg/allogram.ml "$sources"/pkg/allogram.mli "$sources"/pkg/allogram_stubs.c "$sources/pkg/arch/$(uname -m)/whole_stack.S" \
    "$sources"/ocaml_name.c "$sources"/ocaml_name.h "$out"
sed "s/@VERSION@/$version/" "$sources"/pkg/META.in >"$out/META"
cd "$out"
"$@" ocamlc -g -c allogram.mli
"$@" ocamlc -g -c allogram.ml
"$@" ocamlopt -g -c allogram.ml
for source in allogram_stubs.c ocaml_name.c; do
    "$@" ocamlc -ccopt "-O2 -g -fPIC -std=gnu11 -Wall -I$include" -c "$source"
done
cc -c -fPIC whole_stack.S -o whole_stack.o
# -linkall: a program into which OCAMLPARAM puts the module does not refer to it.
# --eh-frame-hdr: some linkers leave this table, which unwinding needs, out of static executables.
"$@" ocamlmklib -linkall -o allogram -oc allogram_stubs allogram.cmo allogram_stubs.o ocaml_name.o whole_stack.o \
    "-L$place" -ldopt "-L$built" -lallogram
"$@" ocamlmklib -linkall -o allogram -oc allogram_stubs allogram.cmx -ccopt -Wl,--eh-frame-hdr "-L$place" -lallogram
