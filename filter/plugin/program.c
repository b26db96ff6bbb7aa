/* Looks up symbols in the ELF file of the running program. */
#define _GNU_SOURCE /* dladdr */
#include "filter/plugin/program.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The running program's file, even if it was moved or replaced since. */
#define PROGRAM_FILE "/proc/self/exe"

/* A mapped ELF file, with the word size and byte order of this plugin. */
struct elf {
    const unsigned char *bytes;
    size_t nbytes;
};

/* How far the loader has moved the program, whose headers say where they were
 * linked to be. */
static uintptr_t
find_base(const ElfW(Phdr) * headers, size_t nheaders)
{
    for (size_t i = 0; i < nheaders; i++)
        if (headers[i].p_type == PT_PHDR)
            return (uintptr_t)headers - headers[i].p_vaddr;
    return 0; /* linked for fixed addresses */
}

/* The kernel tells where the program's headers are. dladdr would read all of
 * the program's symbols. */
bool
terp_program_holds(const void *address)
{
    const uintptr_t headers_at = getauxval(AT_PHDR);
    const size_t nheaders = getauxval(AT_PHNUM);
    const ElfW(Phdr) * headers;

    memcpy(&headers, &headers_at, sizeof headers_at);
    if (headers == NULL)
        return false;
    const uintptr_t at = (uintptr_t)address - find_base(headers, nheaders);
    for (size_t i = 0; i < nheaders; i++)
        if (headers[i].p_type == PT_LOAD && at >= headers[i].p_vaddr &&
            at - headers[i].p_vaddr < headers[i].p_memsz)
            return true;
    return false;
}

static int
read_nunloaded(struct dl_phdr_info *info, size_t nbytes, void *nunloaded)
{
    (void)nbytes;
    *(uint64_t *)nunloaded = info->dlpi_subs;
    return 1;
}

bool
terp_program_count_unloaded(uint64_t *n_ret)
{
    return dl_iterate_phdr(read_nunloaded, n_ret) == 1;
}

/* `count` items of `item_nbytes` at offset `at`; NULL when the file is shorter.
 */
static const void *
items_at(const struct elf *elf, uint64_t at, uint64_t count, size_t item_nbytes)
{
    if (at > elf->nbytes || count > (elf->nbytes - at) / item_nbytes)
        return NULL;
    return elf->bytes + at;
}

static bool
is_global(const ElfW(Sym) * symbol)
{
    /* The same in ELF32 and ELF64. */
    unsigned bind = ELF64_ST_BIND(symbol->st_info);
    unsigned type = ELF64_ST_TYPE(symbol->st_info);

    return symbol->st_shndx != SHN_UNDEF && bind != STB_LOCAL &&
           (type == STT_FUNC || type == STT_OBJECT);
}

/* The value of `name` in one symbol table; 0: the table does not have it. */
static uintptr_t
find_in_table(const struct elf *elf, const ElfW(Shdr) * table,
              const ElfW(Shdr) * strings, const char *name)
{
    uint64_t nsymbols = table->sh_size / sizeof(ElfW(Sym));
    size_t name_nbytes = strlen(name) + 1;
    const ElfW(Sym) *symbols =
        items_at(elf, table->sh_offset, nsymbols, sizeof *symbols);
    const char *names = items_at(elf, strings->sh_offset, strings->sh_size, 1);

    if (symbols == NULL || names == NULL)
        return 0;
    for (uint64_t i = 0; i < nsymbols; i++) {
        uint64_t at = symbols[i].st_name;
        if (at < strings->sh_size && strings->sh_size - at >= name_nbytes &&
            memcmp(names + at, name, name_nbytes) == 0 &&
            is_global(&symbols[i]))
            return symbols[i].st_value;
    }
    return 0;
}

/* The address of `name` in this process; 0: the file does not have it. */
static uintptr_t
find_in_file(const struct elf *elf, const char *name)
{
    const ElfW(Ehdr) *head = items_at(elf, 0, 1, sizeof *head);

    if (head == NULL || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return 0;
    const ElfW(Shdr) *sections =
        items_at(elf, head->e_shoff, head->e_shnum, sizeof *sections);
    if (sections == NULL)
        return 0;
    for (size_t i = 0; i < head->e_shnum; i++) {
        uintptr_t value = 0;
        if (sections[i].sh_type == SHT_SYMTAB &&
            sections[i].sh_link < head->e_shnum)
            value = find_in_table(elf, &sections[i],
                                  &sections[sections[i].sh_link], name);
        /* The difference of both entry points is how far the loader has
         * moved the program. */
        if (value != 0)
            return value + getauxval(AT_ENTRY) - head->e_entry;
    }
    return 0;
}

void *
terp_program_find(const char *name)
{
    struct stat status;
    uintptr_t address = 0;
    void *symbol = NULL;
    int file = open(PROGRAM_FILE, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return NULL;
    if (fstat(file, &status) == 0 && status.st_size > 0) {
        size_t nbytes = (size_t)status.st_size;
        void *bytes = mmap(NULL, nbytes, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes != MAP_FAILED) {
            address = find_in_file(&(struct elf){bytes, nbytes}, name);
            munmap(bytes, nbytes);
        }
    }
    close(file);
    memcpy(&symbol, &address, sizeof symbol);
    return symbol;
}
