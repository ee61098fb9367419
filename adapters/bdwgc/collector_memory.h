/* collector_memory.h: records the memory that holds the Boehm collector's heap and tables. */
#ifndef AG_BDWGC_MEMORY_H
#define AG_BDWGC_MEMORY_H

/* From here on, the collector's mappings belong to its heap and are not recorded as the
 * program's. */
void ag_bdwgc_memory_follow(void);
/* Records how much memory the collector holds. Callable anywhere, with or without the collector's
 * lock. */
void ag_bdwgc_memory_report(void);

#endif
