/* adapter_list.h: which adapters `run --adapters` may name. */
#ifndef AG_ADAPTER_LIST_H
#define AG_ADAPTER_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* adapters/adapter_names.c: those that were built into the agent; ends with NULL. */
extern const char *const ag_adapter_names[];

/* "auto", "none", or names joined by commas, each of an adapter. Where not, ret_message (512 bytes)
 * gets what is wrong and the valid names. */
bool ag_adapter_list_check(const char *list, char ret_message[512]);

#endif
