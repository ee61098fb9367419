/* julia_collections.h: records Julia's collections, and finds the objects that die in them. */
#ifndef AG_JULIA_COLLECTIONS_H
#define AG_JULIA_COLLECTIONS_H

#include <stdbool.h>

#include "base/compiler.h"

struct ag_julia_thread;

/* Whether the callbacks of collections are installed. */
extern bool ag_julia_collections_are_followed AG_HIDDEN;
/* Installs the callbacks, if Julia is initialized and no thread has done so. THREAD is the calling
 * thread. */
void ag_julia_collections_follow(struct ag_julia_thread *thread);

/* Called before a recording that follows another one: the next collection forgets the blocks of the
 * earlier recording. */
void ag_julia_collections_forget_next(void);
/* Whether the collection that forgets the earlier recording's blocks has run. */
bool ag_julia_collections_have_forgotten(void);

#endif
