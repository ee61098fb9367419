/* julia_collections.h: collections, and the moment in each of them at which deaths are known. */
#ifndef AG_JULIA_COLLECTIONS_H
#define AG_JULIA_COLLECTIONS_H

#include <stdbool.h>

#include "base/compiler.h"

struct ag_julia_thread;

/* Callbacks are in place (or there is nothing that they could be put into). */
extern bool ag_julia_collections_are_followed AG_HIDDEN;
/* Puts them there as soon as Julia stands; from an allocation of this thread. */
void ag_julia_collections_follow(struct ag_julia_thread *thread);

/* Before a recording that follows another one: the next collection forgets what that one told. */
void ag_julia_collections_forget_next(void);
bool ag_julia_collections_have_forgotten(void);

#endif
