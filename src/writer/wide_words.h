/* wide_words.h: what a stream tells besides its events. */
#ifndef AG_WIDE_WORDS_H
#define AG_WIDE_WORDS_H

#include <stdint.h>

#include "chunk_words.h"
#include "recording.h"

/* Where words go, or-ed: the books may be ahead of the trace (recording.c, section 3). */
enum ag_destination { AG_TO_TRACE = 1, AG_TO_BOOKS = 2 };

/* Takes WIDE of the stream NUMBER. ENCODER: of that stream, for what stands among its events; not
 * used without AG_TO_TRACE. What is damaged is counted as lost; no memory is seen at the write. */
void ag_recording_take_wide(struct ag_recording *recording, uint32_t number,
                            struct ag_event_encoder *encoder, const struct ag_wide *wide,
                            unsigned destinations);

#endif
