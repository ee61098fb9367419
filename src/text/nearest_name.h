/* nearest_name.h: finds the allowed name that is nearest to a mistyped word, for messages that end
 * in "; did you mean 'report'?".
 *
 *     struct ag_nearest_name nearest;
 *     ag_nearest_name_start(&nearest, typed);
 *     ag_nearest_name_offer(&nearest, "report");       // each name that is allowed
 *     ag_nearest_name_offer_list(&nearest, "run view"); // or several at once
 *     const char *hint = ag_nearest_name_hint(&nearest, "");
 *
 * The distance of two words is the number of letters that differ, are missing or are added. Two
 * neighboring letters that are exchanged count as one letter. Case is ignored. A name is near if
 * its distance is at most a third of the length of the word typed, or 1 for words of less than 6
 * letters. */
#ifndef AG_NEAREST_NAME_H
#define AG_NEAREST_NAME_H

enum { AG_NEAREST_NAME_BYTES = 32 }; /* for longer words, no name is found */

struct ag_nearest_name {
    const char *typed;                     /* not copied */
    unsigned distance;                     /* distance of the nearest name so far */
    char name[AG_NEAREST_NAME_BYTES + 1];  /* "": no name is near */
    char hint[AG_NEAREST_NAME_BYTES + 32]; /* what ag_nearest_name_hint returns */
};

void ag_nearest_name_start(struct ag_nearest_name *nearest, const char *typed);
void ag_nearest_name_offer(struct ag_nearest_name *nearest, const char *name);
/* NAMES are separated by blanks or commas. */
void ag_nearest_name_offer_list(struct ag_nearest_name *nearest, const char *names);
/* Returns "; did you mean 'PREFIXreport'?" for the nearest name "report"; "" if no name is near. */
const char *ag_nearest_name_hint(struct ag_nearest_name *nearest, const char *prefix);

#endif
