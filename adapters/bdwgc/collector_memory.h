/* collector_memory.h: records the memory that holds the Boehm collector's heap and tables. */
#ifndef AG_BDWGC_MEMORY_H
#define AG_BDWGC_MEMORY_H

/* Hooks the collector's calls of mmap: after this call its mappings are recorded as memory of its
 * heap, and not as the program's. */
void ag_bdwgc_memory_follow(void);
/* Records how much memory the collector holds. Callable anywhere, with or without the collector's
 * lock. */
void ag_bdwgc_memory_report(void);

#endif
