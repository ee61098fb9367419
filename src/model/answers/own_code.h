/* own_code.h: which frames are those of the people who read a report, and not of the compiler or
 * the C library: their lines are the ones that somebody can change. */
#ifndef AG_OWN_CODE_H
#define AG_OWN_CODE_H

struct ag_frame;

enum ag_frame_owner {
    AG_OWNER_SYSTEM,  /* the C library, a language's own */
    AG_OWNER_UNKNOWN, /* no debug information tells */
    AG_OWNER_READER,
};
enum ag_frame_owner ag_frame_owner(const struct ag_frame *frame);

#endif
