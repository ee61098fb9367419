/* nearest_name.h: "; did you mean 'report'?" for a word that is none of those that are allowed.
 *
 *     struct ag_nearest_name nearest;
 *     ag_nearest_name_start(&nearest, typed);
 *     ag_nearest_name_offer(&nearest, "report");       // each name that is allowed
 *     ag_nearest_name_offer_list(&nearest, "run view"); // or several at once
 *     const char *hint = ag_nearest_name_hint(&nearest, "");
 *
 * A name is near when it differs in at most one of three letters; an exchange of neighbors counts
 * as one difference, upper and lower case as none. */
#ifndef AG_NEAREST_NAME_H
#define AG_NEAREST_NAME_H

enum { AG_NEAREST_NAME_BYTES = 32 }; /* longer words have no near name */

struct ag_nearest_name {
    const char *typed;                     /* not copied */
    unsigned distance;                     /* of the best name so far */
    char name[AG_NEAREST_NAME_BYTES + 1];  /* "": no name is near */
    char hint[AG_NEAREST_NAME_BYTES + 32]; /* what ag_nearest_name_hint returns */
};

void ag_nearest_name_start(struct ag_nearest_name *nearest, const char *typed);
void ag_nearest_name_offer(struct ag_nearest_name *nearest, const char *name);
/* NAMES are separated by blanks or commas. */
void ag_nearest_name_offer_list(struct ag_nearest_name *nearest, const char *names);
/* "; did you mean 'PREFIXreport'?", or "" when no name is near. */
const char *ag_nearest_name_hint(struct ag_nearest_name *nearest, const char *prefix);

#endif
