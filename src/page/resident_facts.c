/* resident_facts.c: writes the classes of the resident memory (model/answers/resident_parts.h) into
 * the facts of the page, with the names and numbers of `report --view=rss --json`. */
#include "page/resident_facts.h"

#include <errno.h>

#include "model/answers/resident_parts.h"
#include "report/view.h"

enum { SITES_MOST = 5 }; /* most sites of each class */

static void write_class(struct ag_json *json, const struct ag_resident_parts *parts,
                        enum ag_resident_class resident_class) {
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "class", ag_resident_class_name(resident_class));
    ag_json_string(json, "words", ag_resident_class_words(resident_class));
    ag_json_integer(json, "bytes", parts->bytes[resident_class]);
    ag_json_open(json, "sites", '[');
    for (size_t i = 0; i < parts->n_sites[resident_class] && i < SITES_MOST; i++) {
        const struct ag_resident_site *site = &parts->sites[resident_class][i];
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "function", site->frame->label);
        ag_json_string(json, "file", site->frame->file);
        ag_json_integer(json, "line", site->frame->line);
        ag_json_integer(json, "bytes", site->bytes);
        ag_json_integer(json, "blocks", site->blocks);
        ag_json_integer(json, "block_bytes", site->block_bytes);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
}

static int write_moment(struct ag_json *json, struct ag_profile *profile,
                        enum ag_resident_moment when) {
    struct ag_resident_parts parts;
    char message[512];
    const int r = ag_profile_resident_parts(profile, when, &parts, message);
    if (r < 0) {
        return r;
    }
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "moment", when == AG_RESIDENT_AT_PEAK ? "peak" : "end");
    ag_resident_numbers_json(json, &parts);
    ag_json_open(json, "classes", '[');
    for (int k = 0; k < AG_RESIDENT_CLASSES; k++) {
        if (parts.bytes[k] > 0) {
            write_class(json, &parts, (enum ag_resident_class)k);
        }
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
    ag_resident_parts_done(&parts);
    return 0;
}

int ag_resident_facts_write(struct ag_json *json, struct ag_profile *profile) {
    ag_json_open(json, "resident", '[');
    int r = write_moment(json, profile, AG_RESIDENT_AT_PEAK);
    if (r == 0 && ag_profile_has_resident_end(profile)) {
        r = write_moment(json, profile, AG_RESIDENT_AT_END);
    }
    ag_json_close(json, ']');
    return r == -ENODATA || r == -ENOTSUP ? 0 : r; /* the trace has no look at the resident memory,
                                                    * or the options do not permit the division into
                                                    * classes */
}
