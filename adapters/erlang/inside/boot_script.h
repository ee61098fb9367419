/* boot_script.h: inserts a call into the boot script of an Erlang node; see boot_script.c. */
#ifndef AG_BEAM_BOOT_SCRIPT_H
#define AG_BEAM_BOOT_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

enum {
    /* the largest boot script that is changed; a script of a thousand modules has 100 KB */
    AG_BOOT_SCRIPT_BYTES_MOST = 16 << 20,
    AG_BOOT_EXTRA_BYTES = 8192, /* room for the two instructions and FOLDER, without the module */
};

/* Copies the boot SCRIPT of N bytes to RET, with two more instructions before the first process is
 * started: load the module allogram_boot, whose file has the contents MODULE, and call
 * allogram_boot:start(FOLDER). RET has room for N + MODULE_BYTES + AG_BOOT_EXTRA_BYTES bytes.
 * Returns the length of the result; 0: SCRIPT has another form, or FOLDER is too long. */
size_t ag_boot_script_extend(const uint8_t *script, size_t n, const uint8_t *module,
                             size_t module_bytes, const char *folder, uint8_t *ret);

/* For the emulator's process, before main. After this call the emulator reads an extended copy when
 * it opens its boot script. FOLDER, which has to stay valid, contains allogram_boot.beam. If
 * anything fails, the emulator reads the unchanged file. INSIDE: any address in the emulator's
 * image, in which calls of open are replaced. */
void ag_boot_script_watch(const void *inside, const char *folder);

#endif
