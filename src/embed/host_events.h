/* host_events.h: whether events are wanted. */
#ifndef AG_HOST_EVENTS_H
#define AG_HOST_EVENTS_H

#include <stdint.h>

/* Bits of allogram_mode_ (ALLOGRAM_TELLS_ ...), each the business of one caller under its lock. */
void ag_host_mode(uint32_t set, uint32_t clear);
/* Before something is told that is no event: this thread's state may be of another recording. */
void ag_host_get_ready(void);

#endif
