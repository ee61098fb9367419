/* guile_files.h: names that the adapter gives to files and frames, and by which reports recognize
 * them.
 *
 * Guile names the source files of its own library by their path in a folder of its load path
 * (ice-9/boot-9.scm). A module of the program can have a path of the same form. So the adapter adds
 * the folder in which Guile is installed, below /usr/share: guile/3.0/ice-9/boot-9.scm.
 *
 * The frame AG_GUILE_START is in the stacks of the blocks that libguile's C code allocates before
 * it can run Scheme code: the built-in procedures and data. */
#ifndef AG_GUILE_FILES_H
#define AG_GUILE_FILES_H

#define AG_GUILE_LIBRARY "guile/3.0/"
#define AG_GUILE_START "start of Guile"

#endif
