/* doctor.c: `allogram doctor`: reports what can be profiled on this machine, and what is missing.
 *
 * Each check is a function that fills one finding; the checks are made in the order of the table
 * `checks`. If a check fails that `run` or `report` needs (is_needed), the command fails. All other
 * checks only report optional features. */
#include <errno.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/runtimes.h"
#include "cli/agent_place.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "observe/perf_watch.h"
#include "report/page.h"
#include "report/quantity.h"
#include "text/json_writer.h"

struct finding {
    bool is_ok;
    char why[768];
    const char *fix; /* what to do; not used if is_ok */
};

static void AG_PRINTF(3, 4)
    finding_set(struct finding *finding, bool is_ok, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->why, sizeof finding->why, format, arguments);
    va_end(arguments);
    finding->is_ok = is_ok;
}

static void check_processor(struct finding *finding) {
    struct utsname name;
    (void)uname(&name); /* fails only for an invalid pointer */
    finding_set(finding, strcmp(name.machine, "x86_64") == 0, "%s, %s %s", name.machine,
                name.sysname, name.release);
    finding->fix = "allogram records x86-64 programs only; use an x86-64 machine";
}

static void check_libc(struct finding *finding) {
    const char *version = gnu_get_libc_version();
    unsigned major = 0, minor = 0;
    bool is_new_enough =
        sscanf(version, "%u.%u", &major, &minor) == 2 && (major > 2 || (major == 2 && minor >= 17));
    finding_set(finding, is_new_enough, "glibc %s; the agent needs 2.17 or newer", version);
    finding->fix = "use a system with glibc 2.17 or newer";
}

static void check_agent(struct finding *finding) {
    char path[AG_AGENT_PLACE_BYTES], message[512];
    int r = ag_agent_place_find(path, message);
    finding_set(finding, r == 0, "%s", r == 0 ? path : message);
    finding->fix = "install allogram as a whole, or set ALLOGRAM_AGENT to the agent's path";
}

/* Lists the adapters (each the code for one runtime, such as Lua) in this build, with the versions
 * that they support. */
static void check_adapters(struct finding *finding) {
    char names[512];
    size_t used = 0;
    names[0] = '\0';
    for (const struct ag_runtime *row = ag_runtimes; row->name && used < sizeof names; row++) {
        if (row->symbol) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s (%s)",
                                     used > 0 ? ", " : "", row->name, row->versions);
        }
    }
    finding_set(finding, true, "%s; a report's summary says which of them acted",
                names[0] ? names : "none");
}

static void check_room(struct finding *finding, const char *folder, uint64_t wanted_bytes) {
    struct statvfs room;
    if (statvfs(folder, &room) != 0) {
        finding_set(finding, false, "%s: %s", folder, strerror(errno));
        return;
    }
    uint64_t free_bytes = (uint64_t)room.f_bavail * room.f_frsize;
    struct ag_quantity amount;
    bool is_writable = access(folder, W_OK) == 0;
    finding_set(finding, is_writable && free_bytes >= wanted_bytes, "%s has %s free%s", folder,
                ag_quantity_bytes(&amount, free_bytes), is_writable ? "" : ", but is not writable");
}

/* room that a recording of medium size needs */
enum { LIVE_BYTES = 64 << 20, TRACE_BYTES = 16 << 20 };

static void check_live_memory(struct finding *finding) {
    check_room(finding, "/dev/shm", LIVE_BYTES);
    finding->fix = "make room in /dev/shm (mount -o remount,size=1G /dev/shm); until then the live "
                   "segment is kept in the trace's folder, which is slower";
}

static void check_output(struct finding *finding) {
    char folder[512];
    if (getcwd(folder, sizeof folder) == NULL) {
        finding_set(finding, false, "the current folder: %s", strerror(errno));
    } else {
        check_room(finding, folder, TRACE_BYTES);
    }
    finding->fix = "go to another folder, or give run --output=FILE";
}

enum { CAPABILITY_SYS_PTRACE = 19 }; /* CAP_SYS_PTRACE of <linux/capability.h> */

/* Whether CAPABILITY is among the effective capabilities of this process. */
static bool has_capability(int capability) {
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    uint64_t mask = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "CapEff: %" SCNx64, &mask); /* all other lines leave MASK unchanged */
    }
    if (file != NULL) {
        (void)fclose(file); /* the file was only read */
    }
    return (mask >> capability & 1) != 0;
}

static void check_ptrace(struct finding *finding) {
    long scope = 0;
    bool is_restricted =
        ag_kernel_number("/proc/sys/kernel/yama/ptrace_scope", &scope) && scope > 0;
    bool is_capable = has_capability(CAPABILITY_SYS_PTRACE);
    bool is_ok = !is_restricted || (is_capable && scope < 3);
    finding_set(finding, is_ok,
                "attach works for %s; kernel.yama.ptrace_scope is %ld, %s CAP_SYS_PTRACE",
                !is_ok       ? "no running program"
                : is_capable ? "every running program"
                             : "your own running programs",
                scope, is_capable ? "with" : "without");
    finding->fix = "to attach: be root, or set sysctl kernel.yama.ptrace_scope=0";
}

static void check_perf_events(struct finding *finding) {
    long paranoid = 0;
    if (!ag_kernel_number(AG_PERF_PARANOID, &paranoid)) {
        finding_set(finding, false, "this kernel has no performance events");
        finding->fix = "to observe from outside: use a kernel with CONFIG_PERF_EVENTS";
        return;
    }
    bool is_ok = paranoid <= 1 || geteuid() == 0;
    finding_set(finding, is_ok, "kernel.perf_event_paranoid is %ld%s", paranoid,
                paranoid > 1 && is_ok ? ", which does not apply to root" : "");
    finding->fix = "to observe from outside: be root, or set sysctl kernel.perf_event_paranoid=1";
}

static void check_debug_files(struct finding *finding) {
    bool has_files = access("/usr/lib/debug/.build-id", R_OK) == 0;
    finding_set(finding, has_files, "%s",
                has_files ? "/usr/lib/debug has debug files of installed packages"
                          : "/usr/lib/debug has no debug files");
    finding->fix = "for file names and lines of installed programs: install their -dbgsym packages";
}

static void check_debuginfod(struct finding *finding) {
    const char *urls = getenv("DEBUGINFOD_URLS");
    bool is_set = urls != NULL && urls[0] != '\0';
    finding_set(finding, is_set, "DEBUGINFOD_URLS is %s%.400s", is_set ? "" : "not set",
                is_set ? urls : "");
    finding->fix = "to let report --debuginfod fetch debug files: export "
                   "DEBUGINFOD_URLS=https://debuginfod.debian.net";
}

static const struct check {
    const char *name;
    bool is_needed; /* `run` or `report` cannot work if this check fails */
    void (*look)(struct finding *finding);
} checks[] = {
    {"processor", true, check_processor},
    {"libc", true, check_libc},
    {"agent", true, check_agent},
    {"adapters", false, check_adapters},
    {"live memory", false, check_live_memory},
    {"output folder", true, check_output},
    {"debug files", false, check_debug_files},
    {"debuginfod", false, check_debuginfod},
    {"ptrace", false, check_ptrace},
    {"performance events", false, check_perf_events},
};

static void write_json(const struct finding *findings) {
    struct ag_json json = {.out = stdout, .line_depth = 2};
    ag_json_open(&json, NULL, '{');
    ag_json_open(&json, "checks", '[');
    for (size_t i = 0; i < AG_ARRAY_SIZE(checks); i++) {
        ag_json_open(&json, NULL, '{');
        ag_json_string(&json, "name", checks[i].name);
        ag_json_bool(&json, "ok", findings[i].is_ok);
        ag_json_string(&json, "why", findings[i].why);
        ag_json_string(&json, "fix", findings[i].is_ok ? NULL : findings[i].fix);
        ag_json_close(&json, '}');
    }
    ag_json_close(&json, ']');
    ag_json_close(&json, '}');
}

static void write_text(const struct finding *findings) {
    struct ag_page page = ag_terminal_page(stdout);
    for (size_t i = 0; i < AG_ARRAY_SIZE(checks); i++) {
        const struct finding *finding = &findings[i];
        enum ag_style style = finding->is_ok        ? AG_STYLE_PLAIN
                              : checks[i].is_needed ? AG_STYLE_WARNING
                                                    : AG_STYLE_BRIGHT;
        const char *state = finding->is_ok ? "ok" : checks[i].is_needed ? "needed" : "missing";
        ag_page_print(&page, style, "  %-8s", state);
        ag_page_print(&page, AG_STYLE_PLAIN, "%-20s%s\n", checks[i].name, finding->why);
        if (!finding->is_ok) {
            ag_page_print(&page, AG_STYLE_DIM, "%30s-> %s\n", "", finding->fix);
        }
    }
}

int ag_command_doctor(int argc, char **argv) {
    static const struct ag_option table[] = {
        {'j', "json", NULL, "print one JSON object instead of text"},
    };
    struct ag_options options = {
        .usage = "doctor [--json]",
        .about = "Checks what can be profiled on this machine, and what is missing.\n"
                 "Exit status 1: something is missing that `run` or `report` needs.",
        .table = table,
        .n_table = AG_ARRAY_SIZE(table),
    };
    bool is_json = false;
    if (!ag_options_read(&options, argc, argv, ag_option_set_bool, &is_json)) {
        return options.status;
    }
    if (options.n_operands > 0) {
        return ag_fail(AG_EXIT_USAGE, "doctor: unexpected argument %s; usage: allogram %s",
                       options.operands[0], options.usage);
    }
    struct finding findings[AG_ARRAY_SIZE(checks)] = {{.is_ok = false}};
    bool has_all = true;
    for (size_t i = 0; i < AG_ARRAY_SIZE(checks); i++) {
        checks[i].look(&findings[i]);
        has_all = has_all && (findings[i].is_ok || !checks[i].is_needed);
    }
    if (is_json) {
        write_json(findings);
    } else {
        write_text(findings);
    }
    return has_all ? AG_EXIT_OK : AG_EXIT_FAILURE;
}
