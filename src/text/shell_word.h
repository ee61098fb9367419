/* shell_word.h: writes paths into the commands that allogram suggests, so that a user can paste
 * them into a shell. */
#ifndef AG_SHELL_WORD_H
#define AG_SHELL_WORD_H

#include <stddef.h>

enum { AG_SHELL_WORD_BYTES = 4096 };

/* Returns PATH as one word of a shell command: PATH itself, if the shell takes it literally;
 * otherwise a copy in WORD, in single quotes. A path that begins with "-" gets "./" before it, so
 * that no command takes it for an option. A text that does not fit is cut. */
const char *ag_shell_word(const char *path, char *word, size_t word_bytes);
/* The same for a pattern: its stars are not quoted. */
const char *ag_shell_pattern(const char *pattern, char *word, size_t word_bytes);

#endif
