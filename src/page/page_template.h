/* page_template.h: the HTML page that tools/build_viewer.sh builds from viewer/, as two arrays in
 * the program. The data of a trace is written between head and tail. */
#ifndef AG_PAGE_TEMPLATE_H
#define AG_PAGE_TEMPLATE_H

#include <stddef.h>

extern const unsigned char ag_page_template_head[], ag_page_template_tail[];
extern const size_t ag_page_template_head_bytes, ag_page_template_tail_bytes; /* 0: not built */
extern const char
    ag_page_template_missing[]; /* why the page was not built, and what to do; "": the page was
                                 * built */

#endif
