/* types_file.h: the option that names a runtime's numbered types, for `run`, `report`, `view` and
 * `export`. */
#ifndef AG_TYPES_FILE_H
#define AG_TYPES_FILE_H

#include "model/profile.h"

/* Reads the file into the profile's options; its content stays until the program ends. Returns an
 * exit status; errors have been printed. */
int ag_types_file_read(const char *command, const char *path, int failure,
                       struct ag_profile_options *profile);

#endif
