/* container_id.c: finds the id of a container in the path of a cgroup, for reports. Engines name
 * the cgroup of a container by its id of 64 hexadecimal digits:
 *
 *     /docker/ID                                               docker, with cgroupfs
 *     /system.slice/docker-ID.scope                            docker, with systemd
 *     /machine.slice/libpod-ID.scope/container                 podman
 *     /user.slice/.../user.slice/libpod-ID.scope               podman without root
 *     /kubepods/burstable/podUID/ID                            Kubernetes, with cgroupfs
 *     /kubepods.slice/.../kubepods-podUID.slice/ENGINE-ID.scope   Kubernetes, with systemd, which
 *                                                              writes the UID with _ for -
 *
 * The last id counts, because a container may contain containers. In a cgroup namespace the path
 * begins inside of the container, and has no id. */
#include "model/definitions/container_id.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"

enum { ID_DIGITS = AG_CONTAINER_ID_BYTES - 1 };

/* What precedes the id in its component of the path. The last match counts. */
static const struct {
    const char *prefix, *engine;
} engines[] = {
    {"", NULL},
    {"docker-", "docker"},
    {"libpod-", "podman"},
    {"cri-containerd-", "containerd"},
    {"nerdctl-", "containerd"},
    {"crio-", "cri-o"},
};

/* Whether TEXT begins with an id, and nothing but the type of a unit of systemd follows. */
static bool is_id(const char *text, size_t length) {
    static const char scope[] = ".scope";
    size_t n = 0;
    while (n < length && isxdigit((unsigned char)text[n])) {
        n++;
    }
    return n == ID_DIGITS && (length == n || (length == n + sizeof scope - 1 &&
                                              memcmp(text + n, scope, sizeof scope - 1) == 0));
}

/* Takes the id in a component of the path, if it has one. PARENT: the component before it. */
static bool take_id(const char *component, size_t length, const char *parent,
                    struct ag_container *container) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(engines); i++) {
        const size_t n = strlen(engines[i].prefix);
        if (length > n && memcmp(component, engines[i].prefix, n) == 0 &&
            is_id(component + n, length - n)) {
            memcpy(container->id, component + n, ID_DIGITS);
            container->id[ID_DIGITS] = '\0';
            container->engine =
                n == 0 && strncmp(parent, "docker/", 7) == 0 ? "docker" : engines[i].engine;
            return true;
        }
    }
    return false;
}

/* Takes the UID of a pod: "pod" and 32 hexadecimal digits, which may be in groups. */
static void take_pod(const char *component, size_t length, struct ag_container *container) {
    enum { POD_DIGITS = 32 };
    static const char mark[] = "pod";
    const size_t n_mark = sizeof mark - 1;
    for (size_t at = 0; at + n_mark < length; at++) {
        if (memcmp(component + at, mark, n_mark) != 0) {
            continue;
        }
        const char *uid = component + at + n_mark;
        const size_t most = length - at - n_mark;
        size_t n = 0, n_digits = 0;
        for (; n < most && n < AG_CONTAINER_POD_BYTES - 1; n++) {
            if (isxdigit((unsigned char)uid[n])) {
                n_digits++;
            } else if (uid[n] != '-' && uid[n] != '_') {
                break;
            }
        }
        if (n_digits == POD_DIGITS && (n == most || uid[n] == '.')) {
            for (size_t i = 0; i < n; i++) {
                container->pod[i] = uid[i] == '_' ? '-' : uid[i];
            }
            container->pod[n] = '\0';
        }
    }
}

bool ag_container_of(const char *cgroup, struct ag_container *ret_container) {
    struct ag_container container = {.engine = NULL};
    bool is_found = false;
    const char *parent = "";
    for (const char *at = cgroup != NULL ? cgroup : ""; *at != '\0';) {
        const size_t length = strcspn(at, "/");
        is_found |= take_id(at, length, parent, &container);
        take_pod(at, length, &container);
        parent = at;
        at += length;
        at += *at == '/';
    }
    if (is_found) {
        *ret_container = container;
    }
    return is_found;
}
