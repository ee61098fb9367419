/* resident_classes.h: the classes into which resident memory is divided, by `report --view=rss` and
 * `observe --rss`. Each resident byte belongs to exactly one class. */
#ifndef AG_RESIDENT_CLASSES_H
#define AG_RESIDENT_CLASSES_H

#include <stdbool.h>

#include "schema/resident_mapping.h"

enum ag_resident_class {
    AG_CLASS_LIVE,             /* blocks in use, as requested */
    AG_CLASS_ROUNDING,         /* what the allocator adds to a block: headers, rounding */
    AG_CLASS_PINNED_FREE,      /* free bytes on pages on which there are blocks in use */
    AG_CLASS_RETURNABLE,       /* pages without a block, which malloc could give back to the
                                * kernel */
    AG_CLASS_PROGRAM_MAPPINGS, /* mapped by the program itself */
    AG_CLASS_MANAGED_IN_USE,   /* blocks of heaps with a garbage collector */
    AG_CLASS_MANAGED_FREE,     /* free memory of heaps with a garbage collector */
    AG_CLASS_HEAP,             /* memory of malloc as a whole: in use, or free */
    AG_CLASS_ANONYMOUS, /* other private memory without a file, of allocators and runtimes, as a
                         * whole */
    AG_CLASS_SHARED,    /* shared memory, which has no file on a disk */
    AG_CLASS_STACKS,
    AG_CLASS_THREAD_STORAGE, /* thread control blocks and thread-local storage */
    AG_CLASS_FILES,
    AG_CLASS_COPIES, /* changed pages of private mappings of files, and static data */
    AG_CLASS_JIT,    /* executable memory without a file */
    AG_CLASS_AGENT,  /* memory of allogram in the process */
    AG_CLASS_UNKNOWN,
    AG_RESIDENT_CLASSES
};
/* Return the name of the class in JSON (such as "private_file_copies"), and a short description of
 * the class for reports. */
const char *ag_resident_class_name(enum ag_resident_class resident_class);
const char *ag_resident_class_words(enum ag_resident_class resident_class);

/* The two ways to divide resident memory. */
enum ag_ledger_kind {
    AG_LEDGER_OF_MAPPINGS, /* any process: the kernel describes its mappings */
    AG_LEDGER_OF_BLOCKS,   /* a recorded process: its blocks are known, too */
};
/* Whether a division of this kind has the class. Without the blocks, the memory of an allocator is
 * not divided further. */
bool ag_resident_class_is_in(enum ag_resident_class resident_class, enum ag_ledger_kind kind);

/* Sets the bytes of each class of AG_LEDGER_OF_MAPPINGS. The sum is mapping->rss_bytes. A mapping
 * of a file, and one with thread storage, may have bytes in two classes. MAPPING is one of LOOK. If
 * its pages are not known, all of its thread storage counts as resident. */
void ag_resident_mapping_divide(const struct ag_resident_look *look,
                                const struct ag_resident_mapping *mapping,
                                uint64_t ret_bytes[AG_RESIDENT_CLASSES]);

#endif
