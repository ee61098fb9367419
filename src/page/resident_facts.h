/* resident_facts.h: writes what the resident memory of the process consisted of, for the page. */
#ifndef AG_RESIDENT_FACTS_H
#define AG_RESIDENT_FACTS_H

#include "model/profile.h"
#include "text/json_writer.h"

/* Writes the array "resident": the classes and their bytes at the peak of the resident memory and,
 * if the end is another moment, at the end. The array is empty if the trace has no look at the
 * resident memory, or if the options of the profile do not permit the division into classes. Reads
 * all events of the trace. 0 or a negative errno. */
int ag_resident_facts_write(struct ag_json *json, struct ag_profile *profile);

#endif
