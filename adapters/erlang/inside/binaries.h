/* binaries.h: records the binaries of an Erlang node that are outside of the processes' heaps; see
 * binaries.c. */
#ifndef AG_BEAM_BINARIES_H
#define AG_BEAM_BINARIES_H

/* For the emulator's process, before main: from now on, the emulator's binaries are recorded as
 * blocks of the heap "binaries". If the emulator's code has not the expected form, nothing is
 * changed. INSIDE: an address in the emulator. */
void ag_binaries_watch(const void *inside);

#endif
