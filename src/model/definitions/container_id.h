/* container_id.h: recognizes a container by the path of the cgroup (control group) that its engine
 * has made for it. */
#ifndef AG_CONTAINER_ID_H
#define AG_CONTAINER_ID_H

#include <stdbool.h>

enum { AG_CONTAINER_ID_BYTES = 64 + 1, AG_CONTAINER_POD_BYTES = 36 + 1 };

struct ag_container {
    char id[AG_CONTAINER_ID_BYTES]; /* 64 hexadecimal digits */
    const char *engine;             /* "docker", "podman", ...; NULL: unknown */
    /* UID of the pod of Kubernetes to which the container belongs; "": none */
    char pod[AG_CONTAINER_POD_BYTES];
};

/* Returns false if the path is not that of a container, or has a form that is not known. CGROUP may
 * be NULL. */
bool ag_container_of(const char *cgroup, struct ag_container *ret_container);

#endif
