/* types_file.h: the option that names the types whose numbers a runtime's process told: of `run`,
 * `report`, `view` and `export`. */
#ifndef AG_TYPES_FILE_H
#define AG_TYPES_FILE_H

#include "model/profile.h"

/* Reads it into the profile's options; what was read stays until the program ends. An exit status;
 * what is wrong has been told. */
int ag_types_file_read(const char *command, const char *path, int failure,
                       struct ag_profile_options *profile);

#endif
