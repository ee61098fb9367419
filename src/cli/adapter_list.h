/* adapter_list.h: the adapters that `run --adapters` may name. */
#ifndef AG_ADAPTER_LIST_H
#define AG_ADAPTER_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Defined in adapters/adapter_names.c: the adapters that were built into the agent; ends with NULL.
 */
extern const char *const ag_adapter_names[];

/* Accepts "auto", "none", or adapter names joined by commas. Otherwise ret_message (512 bytes) gets
 * the error and the valid names. */
bool ag_adapter_list_check(const char *list, char ret_message[512]);

#endif
