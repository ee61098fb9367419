/* dump_trigger.c: see dump_trigger.h. A number with a unit of time (a lower-case letter at its end)
 * is a time, any other is bytes: 5m are minutes, 5M are MiB. */
#include "cli/dump_trigger.h"

#include <signal.h>
#include <string.h>

#include "base/compiler.h"
#include "cli/options.h"

/* Signals that `run` otherwise passes on to the program, and that are not used to end programs. */
static const struct {
    const char *name;
    int number;
} signals[] = {{"HUP", SIGHUP}, {"QUIT", SIGQUIT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};

bool ag_dump_signal_parse(const char *name, uint64_t *ret_number) {
    name += strncmp(name, "SIG", 3) == 0 ? 3 : 0;
    for (size_t i = 0; i < AG_ARRAY_SIZE(signals); i++) {
        if (strcmp(name, signals[i].name) == 0) {
            *ret_number = (uint64_t)signals[i].number;
            return true;
        }
    }
    return false;
}

bool ag_dump_trigger_parse(const char *text, struct ag_dump_when *ret_when) {
    static const char every[] = "every=", at_signal[] = "signal=";
    if (strcmp(text, "gc") == 0 || strcmp(text, "peak") == 0) {
        *ret_when = (struct ag_dump_when){.kind = text[0] == 'g' ? AG_DUMP_GC : AG_DUMP_PEAK};
        return true;
    }
    if (strncmp(text, at_signal, sizeof(at_signal) - 1) == 0) {
        ret_when->kind = AG_DUMP_SIGNAL;
        return ag_dump_signal_parse(text + sizeof(at_signal) - 1, &ret_when->every);
    }
    if (strncmp(text, every, sizeof(every) - 1) != 0) {
        return false;
    }
    const char *number = text + sizeof(every) - 1;
    const size_t length = strlen(number);
    const bool is_time = length > 0 && strchr("smh", number[length - 1]) != NULL;
    ret_when->kind = is_time ? AG_DUMP_TIME : AG_DUMP_BYTES;
    return (is_time ? ag_parse_time(number, &ret_when->every)
                    : ag_parse_bytes(number, &ret_when->every)) &&
           ret_when->every > 0;
}
