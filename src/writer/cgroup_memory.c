/* cgroup_memory.c: finds the cgroup of a process and reads its files.
 *
 * /proc/PID/cgroup contains the path of the cgroup in its hierarchy, and /proc/self/mountinfo says
 * where a part of this hierarchy is mounted. In a container this part is often only the container's
 * own cgroup; in a cgroup namespace, the paths begin at this cgroup. A cgroup outside the mounted
 * part cannot be read.
 *
 * In version 2 a cgroup has the files of the memory controller only if its parent enables that
 * controller for its children. Otherwise the processes of the cgroup are accounted by its nearest
 * ancestor that has these files.
 *
 * Names of the files:
 *
 *                      version 1                       version 2
 *     limit            memory.limit_in_bytes           memory.max
 *     slows processes  (none)                          memory.high
 *     memory in use    memory.usage_in_bytes           memory.current
 *     kinds of memory  memory.stat: total_rss,         memory.stat: anon, file, shmem
 *                      total_cache, total_shmem
 *     kills            memory.oom_control: oom_kill    memory.events.local: oom_kill
 *     limit reached    memory.failcnt                  memory.events.local: oom
 *     pressure         /proc/pressure/memory           memory.pressure: some avg10
 *
 * oom_kill counts the processes of this cgroup (not of those below it) that the kernel killed for
 * lack of memory, whether the reason was the limit of this cgroup, the limit of an ancestor, or a
 * lack of memory on the whole machine. Version 2 before Linux 5.2 has only memory.events, which
 * includes the cgroups below. The root cgroup of version 2 has none of these files; its kills are
 * read from /proc/vmstat, which counts the kills on the whole machine. */
#include "cgroup_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"

enum { FILE_BYTES = 8192 }; /* memory.stat and /proc/vmstat have some 4 KiB */

static bool read_whole(const char *path, char text[FILE_BYTES]) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t n = -1;
    while (fd >= 0 && length < FILE_BYTES - 1 &&
           (n = read(fd, text + length, FILE_BYTES - 1 - length)) > 0) {
        length += (size_t)n;
    }
    ag_descriptor_close(fd);
    text[length] = '\0';
    return n >= 0 && length > 0;
}

/* Returns the number after KEY and a blank, at the start of a line. UINT64_MAX: there is none. */
static uint64_t number_of(const char *text, const char *key) {
    const size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            return strtoull(line + length + 1, NULL, 10);
        }
    }
    return UINT64_MAX;
}

/* ---- finding ---- */

/* Whether LIST, words separated by commas up to END, contains WORD. */
static bool has_word(const char *list, const char *end, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - at) == length && memcmp(at, word, length) == 0) {
            return true;
        }
        at = stop + 1;
    }
    return false;
}

/* Reads the path of the cgroup from /proc/PID/cgroup, whose lines are NUMBER:CONTROLLERS:PATH. The
 * line of the memory controller of version 1 takes precedence: if this controller is mounted, the
 * unified hierarchy does not account memory. */
static bool read_name(uint32_t pid, struct ag_cgroup *ret_cgroup) {
    char path[64], *line = NULL;
    size_t capacity = 0;
    bool is_found = false;
    (void)snprintf(path, sizeof(path), "/proc/%u/cgroup", pid);
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &capacity, file) > 0) {
        const char *controllers = strchr(line, ':');
        const char *name = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!name) {
            continue;
        }
        const bool is_unified = strncmp(line, "0::", 3) == 0;
        const bool is_memory = has_word(controllers + 1, name, "memory");
        line[strcspn(line, "\n")] = '\0';
        if ((is_memory || (is_unified && !is_found)) && strlen(name + 1) < AG_CGROUP_PATH_BYTES) {
            ret_cgroup->is_unified = is_unified;
            memcpy(ret_cgroup->name, name + 1, strlen(name + 1) + 1);
            is_found = true;
        }
        if (is_memory) {
            break;
        }
    }
    free(line);
    if (file) {
        (void)fclose(file); /* nothing was written */
    }
    return is_found;
}

void ag_cgroup_name(uint32_t pid, char ret_name[AG_CGROUP_PATH_BYTES]) {
    struct ag_cgroup cgroup = {.is_machine = true};
    (void)read_name(pid, &cgroup); /* the name stays "" if it is not found */
    memcpy(ret_name, cgroup.name, AG_CGROUP_PATH_BYTES);
}

/* Decodes the escapes of mountinfo (\040 is a blank) in place. */
static void unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from; to++) {
        unsigned code;
        if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3 &&
            sscanf(from + 1, "%3o", &code) == 1) {
            *to = (char)code;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* Whether this line of mountinfo is a mount of the hierarchy of CGROUP. */
static bool is_hierarchy(const struct ag_cgroup *cgroup, const char *line) {
    const char *type = strstr(line, " - ");
    if (!type) {
        return false;
    }
    if (cgroup->is_unified) {
        return strncmp(type, " - cgroup2 ", 11) == 0;
    }
    const char *options = strrchr(type, ' ');
    return strncmp(type, " - cgroup ", 10) == 0 &&
           has_word(options + 1, options + strcspn(options, "\n"), "memory");
}

/* Whether a path in a cgroup namespace leads to a cgroup outside of the namespace. */
static bool is_outside(const char *path) {
    return strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0');
}

/* Sets the folder of the cgroup, if a mount of its hierarchy contains it. */
static bool find_folder(struct ag_cgroup *cgroup) {
    char *line = NULL;
    size_t capacity = 0;
    bool is_found = false;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    while (mounts && !is_found && getline(&line, &capacity, mounts) > 0) {
        char *root = NULL, *point = NULL;
        if (!is_hierarchy(cgroup, line) ||
            sscanf(line, "%*d %*d %*s %ms %ms", &root, &point) != 2) {
            free(root);
            free(point);
            continue;
        }
        unescape(root);
        unescape(point);
        const size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
        const char *rest = cgroup->name + length;
        if (strncmp(cgroup->name, root, length) == 0 && (*rest == '/' || *rest == '\0') &&
            !is_outside(rest)) {
            rest = strcmp(rest, "/") == 0 ? "" : rest;
            const int n = snprintf(cgroup->folder, sizeof(cgroup->folder), "%s%s", point, rest);
            cgroup->mount_length = strlen(point);
            is_found =
                n > 0 && (size_t)n < sizeof(cgroup->folder) && access(cgroup->folder, X_OK) == 0;
        }
        free(root);
        free(point);
    }
    free(line);
    if (mounts) {
        (void)fclose(mounts); /* nothing was written */
    }
    return is_found;
}

/* Returns the length of the path of a level's folder, which is a prefix of cgroup->folder; 0: there
 * is no such level, or it is above the mount point. */
static size_t level_length(const struct ag_cgroup *cgroup, size_t level) {
    size_t length = strlen(cgroup->folder);
    for (; level > 0; level--) {
        if (length <= cgroup->mount_length) {
            return 0;
        }
        do {
            length--;
        } while (length > cgroup->mount_length && cgroup->folder[length] != '/');
    }
    return length;
}

static bool read_file(const struct ag_cgroup *cgroup, size_t level, const char *name,
                      char text[FILE_BYTES]) {
    char path[AG_CGROUP_PATH_BYTES + 64];
    const size_t length = level_length(cgroup, level);
    (void)snprintf(path, sizeof(path), "%.*s/%s", (int)length, cgroup->folder, name);
    return length > 0 && read_whole(path, text);
}

bool ag_cgroup_find(uint32_t pid, struct ag_cgroup *ret_cgroup) {
    char text[FILE_BYTES];
    *ret_cgroup = (struct ag_cgroup){.is_machine = true};
    if (!read_name(pid, ret_cgroup)) {
        return access("/proc/self/cgroup", R_OK) < 0; /* a kernel without cgroups */
    }
    if (!find_folder(ret_cgroup)) {
        return true;
    }
    const char *file = ret_cgroup->is_unified ? "memory.events" : "memory.oom_control";
    size_t n_above = 0, length = strlen(ret_cgroup->folder);
    while (length > 0 && !read_file(ret_cgroup, n_above, file, text)) {
        length = level_length(ret_cgroup, ++n_above);
    }
    if (length > 0) {
        ret_cgroup->is_machine = false;
        ret_cgroup->n_above = n_above;
        ret_cgroup->folder[length] = '\0';
    }
    return true;
}

bool ag_cgroup_has(const struct ag_cgroup *cgroup, uint32_t pid) {
    struct ag_cgroup now = {.is_unified = false};
    return read_name(pid, &now) && now.is_unified == cgroup->is_unified &&
           strcmp(now.name, cgroup->name) == 0;
}

bool ag_cgroup_is_same(const struct ag_cgroup *a, const struct ag_cgroup *b) {
    return a->is_machine == b->is_machine && (a->is_machine || strcmp(a->folder, b->folder) == 0);
}

void ag_cgroup_level_name(const struct ag_cgroup *cgroup, size_t level,
                          char ret_name[AG_CGROUP_PATH_BYTES]) {
    (void)snprintf(ret_name, AG_CGROUP_PATH_BYTES, "%s", cgroup->name);
    for (level += cgroup->n_above; level > 0; level--) {
        char *slash = strrchr(ret_name, '/');
        if (slash) {
            *slash = '\0';
        }
    }
    if (ret_name[0] == '\0') {
        memcpy(ret_name, "/", 2);
    }
}

/* ---- reading ---- */

/* Reads a file that has one number. UINT64_MAX: it has another text ("max"), or is missing. */
static uint64_t read_number(const struct ag_cgroup *cgroup, size_t level, const char *name) {
    char text[FILE_BYTES];
    const bool is_number = read_file(cgroup, level, name, text) && text[0] >= '0' && text[0] <= '9';
    return is_number ? strtoull(text, NULL, 10) : UINT64_MAX;
}

static bool read_events(const struct ag_cgroup *cgroup, size_t level, char text[FILE_BYTES]) {
    return read_file(cgroup, level, "memory.events.local", text) ||
           read_file(cgroup, level, "memory.events", text);
}

static uint64_t read_limit(const struct ag_cgroup *cgroup, size_t level) {
    /* without a limit, version 1 shows the largest multiple of the page size below 2^63 */
    const uint64_t none = UINT64_C(1) << 62;
    const uint64_t limit_bytes =
        read_number(cgroup, level, cgroup->is_unified ? "memory.max" : "memory.limit_in_bytes");
    return limit_bytes >= none ? UINT64_MAX : limit_bytes;
}

double ag_cgroup_pressure_percent(const struct ag_cgroup *cgroup) {
    static const char some[] = "some avg10="; /* the first line of both files */
    char text[FILE_BYTES];
    const bool is_known = (cgroup->is_unified && read_file(cgroup, 0, "memory.pressure", text)) ||
                          read_whole("/proc/pressure/memory", text);
    return is_known && strncmp(text, some, sizeof(some) - 1) == 0
               ? strtod(text + sizeof(some) - 1, NULL)
               : -1;
}

void ag_cgroup_count(const struct ag_cgroup *cgroup, struct ag_cgroup_counts *ret_counts) {
    char text[FILE_BYTES];
    memset(ret_counts, 0xff, sizeof(*ret_counts)); /* UINT64_MAX */
    if (cgroup->is_machine) {
        if (read_whole("/proc/vmstat", text)) {
            ret_counts->kills = number_of(text, "oom_kill");
        }
        return;
    }
    for (size_t level = 0; level < AG_CGROUP_LEVELS && level_length(cgroup, level) > 0; level++) {
        if (!cgroup->is_unified) {
            ret_counts->limit_hits[level] = read_number(cgroup, level, "memory.failcnt");
        } else if (read_events(cgroup, level, text)) {
            ret_counts->limit_hits[level] = number_of(text, "oom");
            ret_counts->kills = level == 0 ? number_of(text, "oom_kill") : ret_counts->kills;
        }
    }
    if (!cgroup->is_unified && read_file(cgroup, 0, "memory.oom_control", text)) {
        ret_counts->kills = number_of(text, "oom_kill");
    }
}

static void read_parts(const struct ag_cgroup *cgroup, struct ag_cgroup_look *look) {
    char text[FILE_BYTES];
    if (!read_file(cgroup, look->nearest > 0 ? (size_t)look->nearest : 0, "memory.stat", text)) {
        return;
    }
    const uint64_t anonymous = number_of(text, cgroup->is_unified ? "anon" : "total_rss"),
                   cache = number_of(text, cgroup->is_unified ? "file" : "total_cache"),
                   shmem = number_of(text, cgroup->is_unified ? "shmem" : "total_shmem");
    if (anonymous != UINT64_MAX && cache != UINT64_MAX) {
        look->has_parts = true;
        look->anonymous_bytes = anonymous;
        look->shmem_bytes = shmem != UINT64_MAX ? shmem : 0;
        /* the kernel counts shared memory (tmpfs) as page cache, too */
        look->cache_bytes = cache > look->shmem_bytes ? cache - look->shmem_bytes : 0;
    }
}

uint64_t ag_cgroup_kept_bytes(const struct ag_cgroup_look *look) {
    const uint64_t used = look->used_bytes[look->nearest > 0 ? look->nearest : 0];
    return used > look->cache_bytes ? used - look->cache_bytes : 0;
}

void ag_cgroup_look(const struct ag_cgroup *cgroup, struct ag_cgroup_look *ret_look) {
    *ret_look = (struct ag_cgroup_look){.nearest = AG_CGROUP_LIMIT_NONE};
    ag_cgroup_count(cgroup, &ret_look->counts);
    uint64_t least_room = UINT64_MAX;
    for (size_t level = 0;
         !cgroup->is_machine && level < AG_CGROUP_LEVELS && level_length(cgroup, level) > 0;
         level++) {
        const uint64_t limit = read_limit(cgroup, level),
                       high = cgroup->is_unified ? read_number(cgroup, level, "memory.high")
                                                 : UINT64_MAX,
                       full = high < limit ? high : limit;
        ret_look->n_levels = level + 1;
        ret_look->limit_bytes[level] = limit;
        ret_look->full_bytes[level] = full;
        if (full == UINT64_MAX && level > 0) {
            continue;
        }
        const uint64_t used = read_number(
            cgroup, level, cgroup->is_unified ? "memory.current" : "memory.usage_in_bytes");
        ret_look->used_bytes[level] = used != UINT64_MAX ? used : 0;
        const uint64_t room =
            full > ret_look->used_bytes[level] ? full - ret_look->used_bytes[level] : 0;
        if (full != UINT64_MAX && room < least_room) {
            least_room = room;
            ret_look->nearest = (int)level;
        }
    }
    if (!cgroup->is_machine) {
        read_parts(cgroup, ret_look);
    }
}

size_t ag_cgroup_list(const struct ag_cgroup *cgroup, uint32_t ret_pids[AG_CGROUP_PIDS]) {
    char path[AG_CGROUP_PATH_BYTES + 64];
    size_t count = 0;
    unsigned pid;
    (void)snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup->folder);
    FILE *file = cgroup->is_machine || cgroup->n_above > 0 ? NULL : fopen(path, "re");
    while (file && count <= AG_CGROUP_PIDS && fscanf(file, "%u", &pid) == 1) {
        if (count < AG_CGROUP_PIDS) {
            ret_pids[count] = pid;
        }
        count++;
    }
    if (file) {
        (void)fclose(file); /* nothing was written */
    }
    return file ? count : AG_CGROUP_PIDS + 1;
}
