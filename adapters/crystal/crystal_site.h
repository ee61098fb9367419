/* crystal_site.h: reads the machine code around a call that allocates, to find out whether this
 * code makes an object of a certain type. */
#ifndef AG_CRYSTAL_SITE_H
#define AG_CRYSTAL_SITE_H

#include <stdbool.h>
#include <stdint.h>

struct ag_decoder_file;

/* Whether the call before RETURN_ADDRESS requests SIZE_OF_OBJECT bytes (0: any number), and the
 * code that follows can store the type number NUMBER at the beginning of the block. */
bool ag_crystal_site_stores(struct ag_decoder_file *file, uint64_t return_address, uint32_t number,
                            uint64_t size_of_object);

#endif
