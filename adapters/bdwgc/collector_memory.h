/* collector_memory.h: the memory that the collector has its heap and its tables in. */
#ifndef AG_BDWGC_MEMORY_H
#define AG_BDWGC_MEMORY_H

/* From here on what the collector maps is its heap's, and not told as the program's own. */
void ag_bdwgc_memory_follow(void);
/* Tells how much it holds. From anywhere, with the collector's lock or without. */
void ag_bdwgc_memory_report(void);

#endif
