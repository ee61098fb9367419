/* guile_files.h: the beginning of the paths that source files of Guile's own modules have in
 * traces.
 *
 * Guile knows these files by their path in a folder of its load path (ice-9/boot-9.scm). A module
 * of the program can have a path of the same form. So the adapter adds the folder in which Guile is
 * installed, below /usr/share: guile/3.0/ice-9/boot-9.scm. */
#ifndef AG_GUILE_FILES_H
#define AG_GUILE_FILES_H

#define AG_GUILE_LIBRARY "guile/3.0/"

#endif
