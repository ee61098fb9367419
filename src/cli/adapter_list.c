/* adapter_list.c: checks the value of `run --adapters` before a program starts with it. */
#include "cli/adapter_list.h"

#include <stdio.h>
#include <string.h>

#include "text/nearest_name.h"

static bool is_adapter(const char *name, size_t length) {
    for (size_t i = 0; ag_adapter_names[i]; i++) {
        if (strlen(ag_adapter_names[i]) == length &&
            strncmp(ag_adapter_names[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

bool ag_adapter_list_check(const char *list, char ret_message[512]) {
    if (strcmp(list, "auto") == 0 || strcmp(list, "none") == 0) {
        return true;
    }
    for (const char *at = list;; at++) {
        const size_t length = strcspn(at, ",");
        if (!is_adapter(at, length)) {
            char name[65];
            (void)snprintf(name, sizeof(name), "%.*s", (int)(length < 64 ? length : 64), at);
            struct ag_nearest_name nearest;
            ag_nearest_name_start(&nearest, name);
            ag_nearest_name_offer_list(&nearest, "auto none");
            for (size_t i = 0; ag_adapter_names[i]; i++) {
                ag_nearest_name_offer(&nearest, ag_adapter_names[i]);
            }
            int used = snprintf(ret_message, 512, "unknown adapter '%s'%s; one of auto, none", name,
                                ag_nearest_name_hint(&nearest, ""));
            for (size_t i = 0; ag_adapter_names[i] && used < 500; i++) {
                used +=
                    snprintf(ret_message + used, 512 - (size_t)used, ", %s", ag_adapter_names[i]);
            }
            return false;
        }
        at += length;
        if (*at == '\0') {
            return true;
        }
    }
}
