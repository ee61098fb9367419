/* custom_memory.h: gives types to the blocks of malloc that a block with custom operations owns
 * outside of OCaml's heap. */
#ifndef AG_OCAML_CUSTOM_MEMORY_H
#define AG_OCAML_CUSTOM_MEMORY_H

/* Installs the hook. Called when the adapter is installed (ocaml_attach.c). */
void ag_ocaml_custom_memory_follow(void);

#endif
