/* types_file.c: see types_file.h. The adapter defines which runtime has such a file, and the
 * option's name (symbol/decoder.h). */
#include "cli/types_file.h"

#include <string.h>

#include "cli/command.h"
#include "cli/message.h"
#include "symbol/decoder.h"

static struct ag_decoder_types *types; /* the last file that was read */

int ag_types_file_read(const char *command, const char *path, int failure,
                       struct ag_profile_options *profile) {
    char message[512] = "";
    for (size_t i = 0; ag_decoders[i]; i++) {
        const struct ag_decoder *decoder = ag_decoders[i];
        if (!decoder->types_option || strcmp(decoder->types_option, ag_types_option) != 0) {
            continue;
        }
        if (types) {
            decoder->free_types(types);
            types = NULL;
        }
        if (decoder->read_types(path, &types, message) < 0) {
            return ag_fail(failure, "%s: --%s=%s", command, ag_types_option, message);
        }
        profile->types_decoder = decoder;
        profile->types = types;
    }
    return AG_EXIT_OK;
}
