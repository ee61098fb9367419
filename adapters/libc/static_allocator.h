/* static_allocator.h: programs that carry their allocator in themselves. */
#ifndef AG_STATIC_ALLOCATOR_H
#define AG_STATIC_ALLOCATOR_H

#include <stddef.h>

/* Looks whether the program defines allocation functions itself and puts detours into them. Called
 * at the start, before main, by the one thread there is. Returns the number of functions hooked; 0
 * when there are none; negative when there are some and they cannot be hooked. ret_note (at least
 * 200 bytes) gets one line for the trace: what was hooked, or what was not and why; untouched when
 * there is nothing to say. */
int ag_static_allocator_hook(char *ret_note, size_t note_bytes);

#endif
