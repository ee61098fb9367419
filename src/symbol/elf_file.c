/* elf_file.c: opens ELF files (elf_file.h). libelf maps a file, and checks every offset against the
 * size that the file had when it was opened. If the file is truncated while it is read, the part
 * that was cut off reads as zeros (writer/cut_files.h). */
#include "elf_file.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "remote/foreign_file.h"

struct ag_build_id ag_build_id_from(const void *bytes, size_t n_bytes) {
    struct ag_build_id id = {.n_bytes = n_bytes < AG_BUILD_ID_BYTES ? n_bytes : AG_BUILD_ID_BYTES};
    if (id.n_bytes > 0) {
        memcpy(id.bytes, bytes, id.n_bytes);
    }
    return id;
}

bool ag_build_id_equals(const struct ag_build_id *a, const struct ag_build_id *b) {
    return a->n_bytes == b->n_bytes && memcmp(a->bytes, b->bytes, a->n_bytes) == 0;
}

void ag_build_id_format(const struct ag_build_id *id, char ret_text[AG_BUILD_ID_TEXT_BYTES]) {
    for (size_t i = 0; i < id->n_bytes; i++) {
        snprintf(ret_text + 2 * i, 3, "%02x", id->bytes[i]);
    }
    ret_text[2 * id->n_bytes] = '\0';
}

int ag_elf_file_adopt(int fd, const char *path, const struct ag_build_id *wanted,
                      struct ag_build_id *ret_found, struct ag_elf_file *ret_file) {
    if (elf_version(EV_CURRENT) == EV_NONE) {
        close(fd);
        return -ENOTSUP;
    }
    struct stat facts = {0};
    (void)fstat(fd, &facts); /* cannot fail: FD is open */
    struct ag_elf_file file = {.fd = fd,
                               .path = strdup(path),
                               .elf = elf_begin(fd, ELF_C_READ_MMAP, NULL),
                               .stored_bytes = ag_foreign_file_stored_bytes(&facts)};
    int r = 0;
    if (file.path == NULL) {
        r = -ENOMEM;
    } else if (file.elf == NULL || elf_kind(file.elf) != ELF_K_ELF ||
               gelf_getclass(file.elf) != ELFCLASS64) {
        r = -ENOEXEC;
    } else {
        const void *bytes = NULL;
        const ssize_t n_bytes = dwelf_elf_gnu_build_id(file.elf, &bytes);
        file.build_id = ag_build_id_from(bytes, n_bytes > 0 ? (size_t)n_bytes : 0);
        if (wanted->n_bytes > 0 && !ag_build_id_equals(wanted, &file.build_id)) {
            if (ret_found != NULL) {
                *ret_found = file.build_id;
            }
            r = -ESTALE;
        }
    }
    if (r < 0) {
        elf_end(file.elf);
        free(file.path);
        close(fd);
        return r;
    }
    *ret_file = file;
    return 0;
}

int ag_elf_file_open(const char *path, const struct ag_build_id *wanted,
                     struct ag_build_id *ret_found, struct ag_elf_file *ret_file) {
    struct stat facts;
    const int fd = ag_foreign_file_open(path, AG_LINKS_FOLLOWED, &facts);
    if (fd >= 0 && ag_foreign_file_is_sparse(&facts)) {
        close(fd);
        return -EFBIG;
    }
    return fd < 0 ? fd : ag_elf_file_adopt(fd, path, wanted, ret_found, ret_file);
}

/* Returns the length of the vdso, whose last part is the table of its section headers. */
static size_t vdso_bytes(const Elf64_Ehdr *header) {
    return header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
}

int ag_elf_file_open_vdso(const struct ag_build_id *wanted, struct ag_elf_file *ret_file) {
    const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
    if (vdso == NULL || wanted->n_bytes == 0) {
        return -ENOENT;
    }
    const int fd = memfd_create("vdso", MFD_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    const size_t n_bytes = vdso_bytes(vdso);
    if (write(fd, vdso, n_bytes) != (ssize_t)n_bytes) {
        close(fd);
        return -EIO;
    }
    return ag_elf_file_adopt(fd, "[vdso]", wanted, NULL, ret_file);
}

/* Returns the size of a section after decompression; 0: the section is not compressed. The size is
 * in the compression header, or, in sections of the older form ".zdebug_...", in eight big-endian
 * bytes after "ZLIB". */
static uint64_t decompressed_bytes(Elf_Scn *section, const GElf_Shdr *header, const char *name) {
    enum { OLD_HEADER_BYTES = 12 };
    GElf_Chdr compressed;
    if ((header->sh_flags & SHF_COMPRESSED) != 0) {
        return gelf_getchdr(section, &compressed) != NULL ? compressed.ch_size : UINT64_MAX;
    }
    if (name == NULL || strncmp(name, ".zdebug", 7) != 0) {
        return 0;
    }
    const Elf_Data *data = elf_rawdata(section, NULL);
    const uint8_t *bytes = data != NULL ? data->d_buf : NULL;
    uint64_t n_bytes = 0;
    if (bytes == NULL || data->d_size < OLD_HEADER_BYTES || memcmp(bytes, "ZLIB", 4) != 0) {
        return 0;
    }
    for (int i = 4; i < OLD_HEADER_BYTES; i++) {
        n_bytes = n_bytes << 8 | bytes[i];
    }
    return n_bytes;
}

uint64_t ag_elf_file_decompressed_bytes(const struct ag_elf_file *file) {
    size_t names;
    uint64_t sum = 0;
    if (file->elf == NULL || elf_getshdrstrndx(file->elf, &names) < 0) {
        return 0;
    }
    for (Elf_Scn *section = NULL; (section = elf_nextscn(file->elf, section)) != NULL;) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == NULL || header.sh_type == SHT_NOBITS) {
            continue;
        }
        const uint64_t n_bytes =
            decompressed_bytes(section, &header, elf_strptr(file->elf, names, header.sh_name));
        if (n_bytes > UINT64_MAX - sum) {
            return UINT64_MAX;
        }
        sum += n_bytes;
    }
    return sum;
}

void ag_elf_file_close(struct ag_elf_file *file) {
    if (file->elf != NULL) {
        elf_end(file->elf);
        close(file->fd);
        free(file->path);
    }
    *file = (struct ag_elf_file){0};
}

Elf_Data *ag_elf_file_section(const struct ag_elf_file *file, const char *name) {
    size_t names;
    if (file->elf == NULL || elf_getshdrstrndx(file->elf, &names) < 0) {
        return NULL;
    }
    for (Elf_Scn *section = NULL; (section = elf_nextscn(file->elf, section)) != NULL;) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == NULL || header.sh_type == SHT_NOBITS) {
            continue;
        }
        const char *found = elf_strptr(file->elf, names, header.sh_name);
        if (found == NULL || strcmp(found, name) != 0) {
            continue;
        }
        if (decompressed_bytes(section, &header, name) > AG_ELF_GROWTH * file->stored_bytes) {
            continue;
        }
        if ((header.sh_flags & SHF_COMPRESSED) != 0 && elf_compress(section, 0, 0) < 0) {
            continue;
        }
        Elf_Data *data = elf_getdata(section, NULL);
        return data != NULL && data->d_buf != NULL ? data : NULL;
    }
    return NULL;
}
