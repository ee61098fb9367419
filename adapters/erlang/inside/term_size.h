/* term_size.h: the number of words that the emulator copies for a term, when a message is sent or a
 * process is spawned; see term_size.c. */
#ifndef AG_BEAM_TERM_SIZE_H
#define AG_BEAM_TERM_SIZE_H

#include <erl_nif.h>
#include <stdbool.h>
#include <stdint.h>

/* Finds the emulator's function. LITERAL: a tuple of three elements that contains no other term
 * than atoms and numbers, and is a literal of a module. Returns whether the function was found. */
bool ag_term_size_start(ErlNifEnv *env, ERL_NIF_TERM literal);
/* The words that the emulator copies for a term, or ALLOGRAM_UNKNOWN_WORDS if the function was not
 * found. */
uint64_t ag_term_size(ERL_NIF_TERM term);

#endif
