/* html_page.h: a profile, or two to compare, as one HTML file that needs nothing else: the page
 * that viewer/ builds, with the data of the trace in it. */
#ifndef AG_HTML_PAGE_H
#define AG_HTML_PAGE_H

#include <stdio.h>

#include "model/profile.h"

/* NULL: this program holds the page. Else why it does not, and what to do, for a message. */
const char *ag_html_page_missing(void);

/* Writes the page of PROFILE; where BEFORE is not NULL, with what differs from that. Both must be
 * unfiltered. 0, or a negative errno; write errors stay in the stream. */
int ag_html_page_write(FILE *out, struct ag_profile *profile, struct ag_profile *before);

#endif
