/* cut_files.h: keeps this process alive when another process truncates a file that is mapped here.
 *
 * Touching a mapped page after the end of its file raises SIGBUS. A recorded program can truncate
 * its live file (the file through which it passes events to the writer), and a build can truncate
 * an ELF file. This can happen at any moment, so a check before the access does not help. With this
 * guard, such a page reads as zeros from then on, in every mapping of the process. The data of such
 * files is checked in any case. */
#ifndef AG_CUT_FILES_H
#define AG_CUT_FILES_H

/* Installs the guard. Called by a process of allogram before it maps such a file. Must not be
 * called inside a program with its own signal handlers. May be called again. */
void ag_cut_files_guard(void);
/* Restores the previous SIGBUS action, for a child that is about to execute another program. */
void ag_cut_files_unguard(void);

#endif
