/* text_file.h: reads a small text file that a user names in an option.
 *
 * A device may have no end, and a large file named by mistake would fill the memory. So only
 * regular files and pipes are read, and at most AG_TEXT_FILE_BYTES_MOST bytes. */
#ifndef AG_TEXT_FILE_H
#define AG_TEXT_FILE_H

enum { AG_TEXT_FILE_BYTES_MOST = 64 << 20 };

/* Reads the whole file. Returns 0 with the text, which ends with a 0 and which the caller frees; or
 * a negative errno with a line "PATH: REASON". */
int ag_text_file_read(const char *path, char **ret_text, char ret_message[512]);

#endif
