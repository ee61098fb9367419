/* filter_option.c: see filter_option.h. */
#include "cli/filter_option.h"

#include "base/block_filter.h"

const char ag_filter_option_help[] = "record only blocks for which all terms hold:\n"
                                     "domain=cpu|gpu|external, allocator=NAME, heap=NAME,\n"
                                     "size=LOW..HIGH, type=GLOB, joined by commas; ! negates one";

bool ag_filter_option_check(const char *value, char ret_message[512]) {
    struct ag_block_filter filter;
    return ag_block_filter_parse(value, &filter, ret_message) == 0;
}
