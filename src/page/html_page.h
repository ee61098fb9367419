/* html_page.h: writes a profile, or two to compare, as one HTML file that needs no other file: the
 * page that is built from viewer/, with the data of the traces in it. */
#ifndef AG_HTML_PAGE_H
#define AG_HTML_PAGE_H

#include <stdio.h>

#include "model/profile.h"

/* NULL if the page was compiled into allogram. Otherwise the text of a message that says why it was
 * not, and what to do. */
const char *ag_html_page_missing(void);

/* Writes the page of PROFILE. Unless BEFORE is NULL, the page compares the two profiles. Both
 * profiles must be unfiltered. 0, or a negative errno. The caller checks OUT with ferror. */
int ag_html_page_write(FILE *out, struct ag_profile *profile, struct ag_profile *before);

#endif
