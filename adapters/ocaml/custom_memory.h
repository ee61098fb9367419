/* custom_memory.h: memory that a block of custom operations holds outside of OCaml's heap. */
#ifndef AG_OCAML_CUSTOM_MEMORY_H
#define AG_OCAML_CUSTOM_MEMORY_H

/* Before anything of the runtime has run. */
void ag_ocaml_custom_memory_follow(void);

#endif
