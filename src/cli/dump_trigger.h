/* dump_trigger.h: parses `run --dump-at=WHEN`. */
#ifndef AG_DUMP_TRIGGER_H
#define AG_DUMP_TRIGGER_H

#include <stdbool.h>

#include "writer/writer.h"

/* gc, peak, every=BYTES, every=TIME, signal=NAME. false: none of them. */
bool ag_dump_trigger_parse(const char *text, struct ag_dump_when *ret_when);

/* HUP, QUIT, USR1 or USR2, with or without SIG: the signals that may request a dump. */
bool ag_dump_signal_parse(const char *name, uint64_t *ret_number);

#endif
