/* erlexec.c: the part of the Erlang adapter in the agent of `allogram run`: makes Erlang nodes load
 * the tracer.
 *
 * However a node is started (erl, escript, elixir, the start script of a release), a program called
 * erlexec assembles the emulator's arguments. It takes arguments from the environment variable
 * ERL_AFLAGS, too, and puts them before those of the command line. If the process is erlexec, the
 * adapter adds two arguments to the variable: the folder of the tracer's module, and a call that
 * begins tracing. So the emulator itself loads the tracer (allogram.erl), whose counters go into
 * the emulator's trace, because the emulator runs under the agent, too.
 *
 * Releases boot in embedded mode, in which a call does not load a module, and an argument -s that
 * fails ends the node. So the added call first loads the module, and catches all errors. It
 * contains no blanks, because erlexec splits the variable at blanks.
 *
 * That call is made when the boot script has ended. To trace also what the boot script starts, the
 * adapter changes the boot script in the emulator's process (boot_script.c); the added call then
 * finds that tracing has begun. In the same process, the adapter has the binaries recorded
 * (binaries.c).
 *
 * The agent starts before the libc has set the environment (adapters/libc/start.c), so the variable
 * is changed when erlexec first calls getenv. The agent's memory for the variable stays valid until
 * erlexec executes the emulator.
 *
 * Tracing is exact, so nothing is added for a sampled recording. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/raw_syscall.h"
#include "binaries.h"
#include "boot_script.h"
#include "embed/adapter.h"
#include "format/segment.h"
#include "hook/first_environment.h"
#include "hook/import_slot.h"
#include "hook/next_symbol.h"
#include "record/recorder.h"

extern const struct ag_adapter ag_adapter_erlang;

enum { PATH_BYTES = 512, VARIABLES_MOST = 65536, TEXT_BYTES = 4096 };

/* Whether the name of the process' program begins with NAME. */
static bool is_program(const char *name) {
    char path[PATH_BYTES];
    const long length = ag_syscall3(SYS_readlink, (long)"/proc/self/exe", (long)path, PATH_BYTES);
    if (length <= 0 || length == PATH_BYTES) {
        return false;
    }
    path[length] = '\0';
    const char *slash = strrchr(path, '/');
    return slash != NULL && strncmp(slash + 1, name, strlen(name)) == 0;
}

/* A string. If more is appended than fits, the string is cut at TEXT_BYTES - 1 and must not be
 * used. */
struct text {
    char bytes[TEXT_BYTES];
    size_t length;
};

static void text_add(struct text *text, const char *more, size_t length) {
    const size_t room = TEXT_BYTES - 1 - text->length;
    const size_t taken = length < room ? length : room;
    memcpy(text->bytes + text->length, more, taken);
    text->length += taken;
    text->bytes[text->length] = '\0';
}

static void add_word(struct text *text, const char *word) {
    text_add(text, word, strlen(word));
}

/* Finds the folder of the module: next to the agent if both are installed, or the adapter's own
 * folder in a build tree. Returns false if there is none, or if its name cannot be an argument. */
static bool find_folder(struct text *ret_folder) {
    static const char *const places[] = {"/beam", "/../erlang/inside"};
    struct ag_symbol_place agent;
    if (!ag_symbol_find("allogram_make_counters", AG_SYMBOL_FIRST, &ag_adapter_erlang, &agent)) {
        return false;
    }
    const char *slash = strrchr(agent.image_name, '/');
    for (size_t i = 0; slash != NULL && i < AG_ARRAY_SIZE(places); i++) {
        ret_folder->length = 0;
        text_add(ret_folder, agent.image_name, (size_t)(slash - agent.image_name));
        add_word(ret_folder, places[i]);
        struct text file = *ret_folder;
        add_word(&file, "/allogram.beam");
        if (ag_syscall3(SYS_access, (long)file.bytes, R_OK, 0) == 0) {
            return strchr(ret_folder->bytes, ' ') == NULL && strchr(ret_folder->bytes, '"') == NULL;
        }
    }
    return false;
}

/* Replaces the environment by a copy that has VARIABLE ("NAME=value") as the value of NAME. */
static void variable_put(char *variable, const char *name) {
    const size_t name_length = strlen(name);
    size_t count = 0;
    while (__environ != NULL && __environ[count] != NULL && count < VARIABLES_MOST) {
        count++;
    }
    char **copy = ag_pages_map((count + 2) * sizeof(*copy));
    if (!copy) {
        return;
    }
    size_t n = 0;
    copy[n++] = variable;
    for (size_t i = 0; i < count; i++) {
        const bool is_it =
            strncmp(__environ[i], name, name_length) == 0 && __environ[i][name_length] == '=';
        if (!is_it) {
            copy[n++] = __environ[i];
        }
    }
    copy[n] = NULL;
    __environ = copy;
}

static const char variable_name[] = "ERL_AFLAGS",
                  call[] = " -eval catch(erlang:module_loaded(allogram)orelse("
                           "[code:load_file(M)||"
                           "M<-[allogram_selection,allogram_built_in,allogram]])),"
                           "catch(allogram:inject())";
static struct text folder; /* of the module */

/* erlexec's calls of getenv lead here. erlexec has one thread. */
static char *add_arguments_and_getenv(const char *name) {
    static struct text variable; /* static: the string that getenv returns has to stay valid */
    if (variable.length == 0) {
        const char *before = getenv(variable_name);
        add_word(&variable, variable_name);
        add_word(&variable, "=-pa ");
        add_word(&variable, folder.bytes);
        add_word(&variable, call);
        if (before != NULL && before[0] != '\0') {
            add_word(&variable, " ");
            add_word(&variable, before);
        }
        if (variable.length < TEXT_BYTES - 1) {
            variable_put(variable.bytes, variable_name);
        }
    }
    return getenv(name);
}

static enum ag_adapter_answer attach(struct ag_runtime_definition *ret_runtime) {
    (void)ret_runtime; /* the node reports its runtime itself */
    if (ag_recorder.header->mode != AG_MODE_EXACT) {
        return AG_ADAPTER_ABSENT;
    }
    const char *before = ag_first_environment_value(variable_name);
    struct ag_symbol_place emulator;
    if (before != NULL && strstr(before, call) != NULL) {
        if (is_program("beam") && find_folder(&folder) &&
            ag_symbol_find("enif_make_atom", AG_SYMBOL_FIRST, &ag_adapter_erlang, &emulator)) {
            ag_boot_script_watch(emulator.address, folder.bytes);
            ag_binaries_watch(emulator.address);
        }
    } else if (is_program("erlexec") && find_folder(&folder)) {
        const void *program = (const void *)getauxval(AT_ENTRY);
        void *unused = NULL;
        (void)ag_import_replace(program, "getenv", (void *)add_arguments_and_getenv, &unused);
    }
    return AG_ADAPTER_ABSENT;
}

const struct ag_adapter ag_adapter_erlang = {.attach = attach};
