/* host_events.h: whether events are wanted. */
#ifndef AG_HOST_EVENTS_H
#define AG_HOST_EVENTS_H

#include <stdint.h>

/* Bits of allogram_mode_ (ALLOGRAM_TELLS_ ...), each the business of one caller under its lock. */
void ag_host_mode(uint32_t set, uint32_t clear);

#endif
