/* wide_words.h: takes a stream's wide records, which are all of its data besides events. */
#ifndef AG_WIDE_WORDS_H
#define AG_WIDE_WORDS_H

#include <stdint.h>

#include "chunk_words.h"
#include "recording.h"

/* Where words go, as flags: the totals may be ahead of the trace (recording.c, section 3). */
enum ag_destination { AG_TO_TRACE = 1, AG_TO_TOTALS = 2 };

/* Takes the wide record WIDE of the stream NUMBER. ENCODER belongs to that stream and receives the
 * records among its events; it is not used without AG_TO_TRACE. Damaged records are counted as
 * lost; lack of memory is reported by the write. */
void ag_recording_take_wide(struct ag_recording *recording, uint32_t number,
                            struct ag_event_encoder *encoder, const struct ag_wide *wide,
                            unsigned destinations);

#endif
