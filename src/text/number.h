/* number.h: writes integers to a stream faster than printf, which parses a format in each call.
 * Errors of writing are not returned: the caller checks ferror of the stream. The stream is not
 * locked. */
#ifndef AG_NUMBER_H
#define AG_NUMBER_H

#include <stdint.h>
#include <stdio.h>

void ag_put_number(FILE *out, uint64_t number); /* writes in decimal */
void ag_put_hex(FILE *out, uint64_t number);    /* writes in hexadecimal, in lower case, without
                                                 * 0x */

#endif
