/* crystal_table.h: reads the type numbers of a Crystal program, as its compiler prints them when
 * CRYSTAL_DUMP_TYPE_ID is set. */
#ifndef AG_CRYSTAL_TABLE_H
#define AG_CRYSTAL_TABLE_H

#include <stdint.h>

struct ag_decoder_types;

/* Returns 0, or a negative errno with a message. */
int ag_crystal_table_read(const char *path, struct ag_decoder_types **ret_types,
                          char ret_message[512]);
/* The name of a type; NULL: unknown. The type String, whose number is the same in every program,
 * also has a name if it is not in the table or if types is NULL. */
const char *ag_crystal_table_name(const struct ag_decoder_types *types, uint32_t number);
void ag_crystal_table_free(struct ag_decoder_types *types);

#endif
