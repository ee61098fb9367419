/* julia_collections.h: records collections, and finds the deaths in each of them. */
#ifndef AG_JULIA_COLLECTIONS_H
#define AG_JULIA_COLLECTIONS_H

#include <stdbool.h>

#include "base/compiler.h"

struct ag_julia_thread;

/* The callbacks are installed (or Julia offers none). */
extern bool ag_julia_collections_are_followed AG_HIDDEN;
/* Installs them as soon as Julia is initialized. Called from an allocation of this thread. */
void ag_julia_collections_follow(struct ag_julia_thread *thread);

/* Called before a recording that follows another one: the next collection forgets the blocks of the
 * former. */
void ag_julia_collections_forget_next(void);
bool ag_julia_collections_have_forgotten(void);

#endif
