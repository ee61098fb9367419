/* open_trace.c: opens a trace for the commands that read one, warns about filters that match
 * nothing, and reads files of type names. A trace that was not sealed is opened as a sealed copy.
 */
#include "cli/open_trace.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/runtimes.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/options.h"
#include "model/answers/collections.h"
#include "model/answers/functions.h"
#include "symbol/decoder.h"
#include "writer/writer.h"

int ag_open_trace(const char *command, const char *path, const struct ag_profile_options *options,
                  struct ag_profile **ret_profile) {
    char message[512] = "", copy_message[512] = "", copy_path[64];
    struct ag_profile_options with_copy = *options;
    int copy = -1;
    const int completed = ag_writer_complete_copy(path, &copy, copy_message);
    if (completed > 0) {
        (void)snprintf(copy_path, sizeof(copy_path), "/proc/self/fd/%d", copy);
        with_copy.contents = copy_path;
    }
    const int r = ag_profile_open(path, &with_copy, ret_profile, message);
    if (copy >= 0) {
        (void)close(copy); /* the profile has a descriptor of its own */
    }
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "%s: %s", command, message);
    }
    if (completed < 0 && copy_message[0] != '\0') {
        /* often it can be read nevertheless */
        ag_say("%s: %s; continuing with the readable part", command, copy_message);
    }
    return AG_EXIT_OK;
}

/* Returns what --focus selects in VIEW ("stack", "call path" or "collection") if nothing matches
 * it; otherwise NULL. */
static const char *nothing_focused(struct ag_profile *profile, const char *view) {
    const struct ag_stack_row *rows;
    const struct ag_functions *functions;
    const struct ag_collections *collections;
    if (strcmp(view, "gc") == 0) {
        return ag_profile_collections(profile, &collections) == 0 && collections->n_rows == 0
                   ? "collection"
                   : NULL;
    }
    if (strcmp(view, "functions") == 0 || ag_profile_has_only_samples(profile)) {
        return ag_profile_functions(profile, &functions) == 0 && functions->n_rows == 0
                   ? "call path"
                   : NULL;
    }
    return ag_profile_stacks(profile, &rows) == 0 ? "stack" : NULL;
}

void ag_warn_if_nothing_matches(const char *command, const char *path, struct ag_profile *profile,
                                const struct ag_profile_options *options, const char *view) {
    const char *unmatched =
        options->focus != NULL ? nothing_focused(profile, view != NULL ? view : "summary") : NULL;
    const bool has_others = options->ignore != NULL || options->runtime != NULL ||
                            options->thread >= 0 || options->from_ns != 0 || options->to_ns != 0;
    if (unmatched != NULL) {
        ag_say("%s: %s: no %s matches --focus=%s%s", command, path, unmatched, options->focus,
               has_others ? " and the other filters" : "");
    }
}

static const struct ag_decoder *decoder_of_option(int id) {
    return ag_runtimes[id - AG_OPTION_OF_DECODERS].decoder;
}

const char *ag_types_option_name(int id) {
    return decoder_of_option(id)->types_option;
}

int ag_types_file_read(const char *command, int id, const char *path, int failure,
                       struct ag_profile_options *profile) {
    static const struct ag_decoder *decoder; /* of the last file that was read */
    static struct ag_decoder_types *types;
    char message[512] = "";
    if (types) {
        decoder->free_types(types);
        types = NULL;
    }
    decoder = decoder_of_option(id);
    if (decoder->read_types(path, &types, message) < 0) {
        return ag_fail(failure, "%s: --%s=%s", command, decoder->types_option, message);
    }
    profile->types_decoder = decoder;
    profile->types = types;
    return AG_EXIT_OK;
}
