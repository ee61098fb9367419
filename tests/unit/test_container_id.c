/* test_container_id.c: recognizes containers by the paths of their cgroups, in the forms that
 * engines use, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/definitions/container_id.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define UID "11b7c7a8-9d1b-4a4b-8b0a-0c6d2f6d3e21"
#define SYSTEMD_UID "11b7c7a8_9d1b_4a4b_8b0a_0c6d2f6d3e21"
#define STATIC_UID "11b7c7a89d1b4a4b8b0a0c6d2f6d3e21"

static const struct {
    const char *cgroup, *engine, *pod;
} known[] = {
    {"/docker/" ID, "docker", ""},
    {"/system.slice/docker-" ID ".scope", "docker", ""},
    {"/machine.slice/libpod-" ID ".scope/container", "podman", ""},
    {"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope", "podman", ""},
    {"/kubepods/burstable/pod" UID "/" ID, NULL, UID},
    {"/kubepods/pod" STATIC_UID "/" ID, NULL, STATIC_UID},
    {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" SYSTEMD_UID
     ".slice/cri-containerd-" ID ".scope",
     "containerd", UID},
    {"/kubepods.slice/kubepods-pod" SYSTEMD_UID ".slice/crio-" ID ".scope", "cri-o", UID},
    {"/system.slice/nerdctl-" ID ".scope", "containerd", ""},
    {"/ecs/task/" ID, NULL, ""},
    {"/docker/" OTHER "/docker/" ID "/init.scope", "docker", ""},
    {"/docker/" OTHER "/system.slice/libpod-" ID ".scope", "podman", ""},
};

static const char *const unknown[] = {
    NULL,
    "",
    "/",
    "/user.slice/user-1000.slice/session-1.scope",
    "/machine.slice/libpod-conmon-" ID ".scope",
    "/docker/" ID "0",
    "/docker/0123456789abcdef",
    "/system.slice/docker-" ID ".service",
    "/kubepods/burstable/pod" UID,
    "/docker/z" ID,
};

static void containers_are_recognized(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct ag_container container;
        assert_true(ag_container_of(known[i].cgroup, &container));
        assert_string_equal(container.id, ID);
        assert_string_equal(container.pod, known[i].pod);
        assert_string_equal(container.engine != NULL ? container.engine : "unknown",
                            known[i].engine != NULL ? known[i].engine : "unknown");
    }
}

static void other_paths_are_not_recognized(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        struct ag_container container = {.engine = "unchanged"};
        assert_false(ag_container_of(unknown[i], &container));
        assert_string_equal(container.engine, "unchanged");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(containers_are_recognized),
        cmocka_unit_test(other_paths_are_not_recognized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
