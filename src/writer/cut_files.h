/* cut_files.h: files that another party cuts while we have them mapped.
 *
 * A mapping's page behind the end of its file answers a touch with SIGBUS. Live files belong to the
 * programs that write to them, ELF files to whoever builds them: each may be cut at any moment, and
 * no look beforehand helps. With this guard such a page reads as zeros from then on, in every
 * mapping of the process, whoever made it: what is read of another party's file is checked anyway.
 */
#ifndef AG_CUT_FILES_H
#define AG_CUT_FILES_H

/* For a process of our own, before it maps anything; not inside of a program that has its own
 * handlers of signals. May be called again. */
void ag_cut_files_guard(void);
/* What SIGBUS did before, for a child that is about to execute another program. */
void ag_cut_files_unguard(void);

#endif
