/* suppression.h: leaks that users have examined and accepted, in the file format of LeakSanitizer:
 *
 *     # a comment
 *     leak:libfontconfig.so
 *     leak:^init_table$
 *     leak:make_*_cache
 *
 * A pattern matches anywhere in the name of the function, the file or the image (program or
 * library) of any frame. `*` matches any characters; a leading `^` and a trailing `$` match the
 * beginning and the end. */
#ifndef AG_SUPPRESSION_H
#define AG_SUPPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_frame;

struct ag_suppression {
    char *pattern;
    uint64_t blocks, bytes; /* what the pattern left out of the report */
};
struct ag_suppressions;
/* Reads a file. Returns NULL with a message if it cannot be read or has an invalid line. */
struct ag_suppressions *ag_suppressions_open(const char *path, char ret_message[512]);
struct ag_suppressions *ag_suppressions_close(struct ag_suppressions *suppressions);
size_t ag_suppressions_list(const struct ag_suppressions *suppressions,
                            const struct ag_suppression **ret_list);

/* The first suppression that matches a name of this frame, or NULL. */
struct ag_suppression *ag_suppressions_match(struct ag_suppressions *suppressions,
                                             const struct ag_frame *frame);
void ag_suppressions_reset(
    struct ag_suppressions *suppressions); /* sets the counts to 0 for the next trace */
bool ag_suppression_pattern_matches(const char *pattern, const char *text);

#endif
