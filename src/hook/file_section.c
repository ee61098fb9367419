/* file_section.c: reads an ELF file's section headers with pread, because a mapping would fault if
 * the file were truncated meanwhile. Uses only system calls that the loader makes when it loads an
 * object (openat, pread64, close), so a sandbox permits them. Reads a few headers at a time, to use
 * little stack. */
#include "file_section.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "base/raw_syscall.h"

enum {
    HEADERS_AT_ONCE = 8,
    NAME_BYTES = 32,      /* longer names cannot be searched */
    SEGMENTS_MOST = 64,   /* linkers write about 12 */
    SECTIONS_MOST = 4096, /* linkers write about 40 */
};

static bool read_all(long fd, void *bytes, size_t n_bytes, uint64_t offset) {
    return offset <= INT64_MAX && ag_syscall6(SYS_pread64, fd, (long)bytes, (long)n_bytes,
                                              (long)offset, 0, 0) == (long)n_bytes;
}

/* Whether the program headers of the file are those of the object. */
static bool has_segments(long fd, const ElfW(Ehdr) * header, const struct dl_phdr_info *object) {
    ElfW(Phdr) segments[HEADERS_AT_ONCE];
    const size_t n = header->e_phnum;
    if (n != object->dlpi_phnum || n > SEGMENTS_MOST) {
        return false;
    }
    for (size_t first = 0; first < n; first += HEADERS_AT_ONCE) {
        const size_t n_here = n - first < HEADERS_AT_ONCE ? n - first : HEADERS_AT_ONCE;
        if (!read_all(fd, segments, n_here * sizeof(*segments),
                      header->e_phoff + first * sizeof(*segments)) ||
            memcmp(segments, &object->dlpi_phdr[first], n_here * sizeof(*segments)) != 0) {
            return false;
        }
    }
    return true;
}

static int find_named(long fd, const ElfW(Ehdr) * header, const char *name,
                      struct ag_file_section *ret_section) {
    ElfW(Shdr) sections[HEADERS_AT_ONCE], names;
    char found[NAME_BYTES];
    const size_t n = header->e_shnum, name_bytes = strlen(name) + 1;
    if (n > SECTIONS_MOST || header->e_shstrndx >= n || name_bytes > sizeof(found) ||
        !read_all(fd, &names, sizeof(names),
                  header->e_shoff + header->e_shstrndx * sizeof(names))) {
        return -ENOEXEC;
    }
    for (size_t i = 0; i < n; i++) {
        const size_t at = i % HEADERS_AT_ONCE;
        const size_t n_here = n - i < HEADERS_AT_ONCE ? n - i : HEADERS_AT_ONCE;
        if (at == 0 && !read_all(fd, sections, n_here * sizeof(*sections),
                                 header->e_shoff + i * sizeof(*sections))) {
            return -ENOEXEC;
        }
        const ElfW(Shdr) *section = &sections[at];
        if ((section->sh_flags & (SHF_ALLOC | SHF_EXECINSTR)) == SHF_ALLOC &&
            section->sh_type != SHT_NOBITS && section->sh_name < names.sh_size &&
            read_all(fd, found, name_bytes, names.sh_offset + section->sh_name) &&
            memcmp(found, name, name_bytes) == 0) {
            *ret_section = (struct ag_file_section){section->sh_addr, section->sh_size};
            return 0;
        }
    }
    return -ENOENT;
}

int ag_file_section_find(const char *path, const struct dl_phdr_info *object, const char *name,
                         struct ag_file_section *ret_section) {
    const long fd = ag_syscall6(SYS_openat, AT_FDCWD, (long)path,
                                O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0, 0, 0);
    if (ag_syscall_failed(fd)) {
        return (int)fd;
    }
    ElfW(Ehdr) header;
    int r = -ENOEXEC;
    if (read_all(fd, &header, sizeof(header), 0) && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
        header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_phentsize == sizeof(ElfW(Phdr)) &&
        header.e_shentsize == sizeof(ElfW(Shdr))) {
        r = has_segments(fd, &header, object) ? find_named(fd, &header, name, ret_section)
                                              : -ESTALE;
    }
    (void)ag_syscall1(SYS_close, fd); /* opened for reading only */
    return r;
}
