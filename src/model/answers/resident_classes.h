/* resident_classes.h: the classes into which resident memory is divided. Each resident byte belongs
 * to exactly one class. */
#ifndef AG_RESIDENT_CLASSES_H
#define AG_RESIDENT_CLASSES_H

#include "schema/resident_mapping.h"

enum ag_resident_class {
    AG_RESIDENT_OF_HEAP,      /* memory of malloc: in use, or free */
    AG_RESIDENT_OF_ANONYMOUS, /* other private memory without a file, of allocators and runtimes */
    AG_RESIDENT_OF_SHARED,    /* shared memory, which has no file on a disk */
    AG_RESIDENT_OF_STACKS,
    AG_RESIDENT_OF_FILES,
    AG_RESIDENT_OF_COPIES, /* changed pages of private mappings of files, and static data */
    AG_RESIDENT_OF_JIT,    /* executable memory without a file */
    AG_RESIDENT_OF_AGENT,  /* allogram's files, if the process is being recorded */
    AG_RESIDENT_CLASSES
};
/* The name in JSON ("private_file_copies"), and what the class contains in a few words. */
const char *ag_resident_class_name(enum ag_resident_class resident_class);
const char *ag_resident_class_words(enum ag_resident_class resident_class);

/* Sets the bytes of each class. The sum is mapping->rss_bytes. A mapping of a file may have bytes
 * in two classes. */
void ag_resident_mapping_divide(const struct ag_resident_mapping *mapping,
                                uint64_t ret_bytes[AG_RESIDENT_CLASSES]);

#endif
