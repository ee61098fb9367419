/* number.h: writes integers to a stream without printf, which would parse a format each time. Write
 * errors stay in the stream (ferror). The stream is not locked. */
#ifndef AG_NUMBER_H
#define AG_NUMBER_H

#include <stdint.h>
#include <stdio.h>

void ag_put_number(FILE *out, uint64_t number); /* in decimal */
void ag_put_hex(FILE *out, uint64_t number);    /* in lower case, without 0x */

#endif
