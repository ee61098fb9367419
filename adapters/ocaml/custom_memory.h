/* custom_memory.h: types of malloc blocks that a block of custom operations owns outside of OCaml's
 * heap. */
#ifndef AG_OCAML_CUSTOM_MEMORY_H
#define AG_OCAML_CUSTOM_MEMORY_H

/* Called before any code of the runtime has run. */
void ag_ocaml_custom_memory_follow(void);

#endif
