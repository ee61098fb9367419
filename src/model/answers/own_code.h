/* own_code.h: decides which frames belong to the readers of a report, who can change them, and not
 * to the compiler or the C library. */
#ifndef AG_OWN_CODE_H
#define AG_OWN_CODE_H

struct ag_frame;

enum ag_frame_owner {
    AG_OWNER_SYSTEM,  /* the C library, a language's own */
    AG_OWNER_UNKNOWN, /* no debug information */
    AG_OWNER_READER,
};
enum ag_frame_owner ag_frame_owner(const struct ag_frame *frame);

#endif
