/* image_tables.h: finds the unwind tables of a loaded object, for images.c. */
#ifndef AG_IMAGE_TABLES_H
#define AG_IMAGE_TABLES_H

#include <link.h>

#include "unwind/stack_walker.h"

/* Fills the fields of *unwind that concern the unwind tables. PATH: the object's file. If the
 * object has tables without a sorted header, maps memory for an index of them. */
void ag_image_tables_find(const struct dl_phdr_info *object, const char *path,
                          struct ag_unwind_image *unwind);
/* Unmaps the index, if there is one. No thread may read it any more. */
void ag_image_tables_release(struct ag_unwind_image *unwind);

#endif
