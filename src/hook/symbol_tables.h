/* symbol_tables.h: looks up a name in the tables of one loaded object, as the loader does.
 *
 * The tables are in memory (PT_DYNAMIC: symbol table, string table, GNU or SysV hash). A lookup
 * takes no lock and calls no function of the loader. The object must stay loaded meanwhile. */
#ifndef AG_SYMBOL_TABLES_H
#define AG_SYMBOL_TABLES_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_symbol_tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const char *own_name;        /* DT_SONAME; NULL: none */
    const uint32_t *gnu_hash;    /* DT_GNU_HASH; NULL: none */
    const uint32_t *sysv_hash;   /* DT_HASH; NULL: none */
    const ElfW(Half) * versions; /* DT_VERSYM; NULL: none */
};

struct ag_symbol_name {
    const char *text;
    uint32_t gnu_hash, sysv_hash;
    uint32_t types; /* a bit 1 << STT_... for each accepted type */
};

struct ag_symbol_name ag_symbol_name(const char *text, uint32_t types);

/* DYNAMIC: the object's dynamic section in memory; BIAS: its load bias. Returns whether the object
 * has symbols and a hash table. */
bool ag_symbol_tables_read(const ElfW(Dyn) * dynamic, uintptr_t bias,
                           struct ag_symbol_tables *ret_tables);

/* Returns the default version of a symbol that the object defines, or a hidden version if there is
 * no other; NULL: the object does not define it. The address of the symbol is st_value plus the
 * load bias. */
const ElfW(Sym) *
    ag_symbol_tables_find(const struct ag_symbol_tables *tables, const struct ag_symbol_name *name);

#endif
