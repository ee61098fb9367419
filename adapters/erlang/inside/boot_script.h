/* boot_script.h: inserts a call into the boot script of an Erlang node; see boot_script.c. */
#ifndef AG_BEAM_BOOT_SCRIPT_H
#define AG_BEAM_BOOT_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

/* The largest boot script that is changed: a script of a thousand modules has 100 KB. */
enum { AG_BOOT_SCRIPT_BYTES_MOST = 16 << 20, AG_BOOT_EXTRA_BYTES = 8192 };

/* Copies the boot SCRIPT of N bytes to RET, with two more instructions before the first process is
 * started: load the module allogram_boot, whose file has the contents MODULE, and call
 * allogram_boot:start(FOLDER). RET has N + MODULE_BYTES + AG_BOOT_EXTRA_BYTES bytes. Returns the
 * number of bytes; 0: SCRIPT has not the expected form. */
size_t ag_boot_script_extend(const uint8_t *script, size_t n, const uint8_t *module,
                             size_t module_bytes, const char *folder, uint8_t *ret);

/* For the emulator's process, before main: from now on, the file of the boot script that the
 * emulator opens has the two instructions. FOLDER, which has to stay valid, contains
 * allogram_boot.beam. If anything fails, the emulator reads the unchanged file. INSIDE: an address
 * in the emulator. */
void ag_boot_script_watch(const void *inside, const char *folder);

#endif
