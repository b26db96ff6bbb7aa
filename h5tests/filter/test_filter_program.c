/* The search for symbols in a program's file, which may be any file. The files
 * are copies of this program, damaged or truncated. The linker redirects open,
 * fstat and mmap here. */
#define _GNU_SOURCE /* for RTLD_DEFAULT */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filter/plugin/program.h"
#include "h5tests/support/cmocka_all.h"

/* The symbols to find: a function, a variable, and one that does not exist. */
int
terp_test_known_function(void);
int
terp_test_known_function(void)
{
    return 42;
}
extern int terp_test_known_variable;
int terp_test_known_variable = 43;
static int local_variable = 44;

static char path[] = "/tmp/test_filter_program_XXXXXX";
static const char *opened; /* replaces the program's own file */
static bool fails_to_open, fails_to_stat, fails_to_map;

int
__real_fstat(int file, struct stat *status);
void *
__real_mmap(void *at, size_t nbytes, int protection, int flags, int file,
            off_t offset);
int
__real_open(const char *name, int flags, ...);
int
__wrap_open(const char *name, int flags, ...);
int
__wrap_fstat(int file, struct stat *status);
void *
__wrap_mmap(void *at, size_t nbytes, int protection, int flags, int file,
            off_t offset);

int
__wrap_open(const char *name, int flags, ...)
{
    return fails_to_open ? -1
                         : __real_open(opened != NULL ? opened : name, flags);
}

int
__wrap_fstat(int file, struct stat *status)
{
    return fails_to_stat ? -1 : __real_fstat(file, status);
}

void *
__wrap_mmap(void *at, size_t nbytes, int protection, int flags, int file,
            off_t offset)
{
    return fails_to_map
               ? MAP_FAILED
               : __real_mmap(at, nbytes, protection, flags, file, offset);
}

/* ---- copies of the file ---- */

static unsigned char *original;
static size_t original_nbytes;

static int
read_original(void **state)
{
    FILE *file = fopen("/proc/self/exe", "rb");

    (void)state;
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    original_nbytes = (size_t)ftell(file);
    rewind(file);
    original = malloc(original_nbytes);
    assert_non_null(original);
    assert_int_equal(fread(original, 1, original_nbytes, file),
                     original_nbytes);
    fclose(file);
    const int made = mkstemp(path);
    assert_true(made >= 0);
    close(made);
    return 0;
}

static int
remove_copy(void **state)
{
    (void)state;
    free(original);
    return unlink(path);
}

/* The symbols found in the first `nbytes` of a file with these bytes. */
static void *
found_in(const unsigned char *bytes, size_t nbytes, const char *name)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, nbytes, file), nbytes);
    fclose(file);
    opened = path;
    void *found = terp_program_find(name);
    opened = NULL;
    return found;
}

static ElfW(Shdr) * sections_of(unsigned char *bytes)
{
    return (ElfW(Shdr) *)(bytes + ((ElfW(Ehdr) *)bytes)->e_shoff);
}

static ElfW(Shdr) * table_of(unsigned char *bytes)
{
    ElfW(Shdr) *section = sections_of(bytes);

    while (section->sh_type != SHT_SYMTAB)
        section++;
    return section;
}

static ElfW(Sym) * symbol_of(unsigned char *bytes, const char *name)
{
    const ElfW(Shdr) *table = table_of(bytes);
    const ElfW(Shdr) *strings = sections_of(bytes) + table->sh_link;
    ElfW(Sym) *symbol = (ElfW(Sym) *)(bytes + table->sh_offset);

    while (strcmp((char *)bytes + strings->sh_offset + symbol->st_name, name) !=
           0)
        symbol++;
    return symbol;
}

/* ---- tests ---- */

static void
symbols_are_found_where_they_are(void **state)
{
    int (*function)(void);
    void *found = terp_program_find("terp_test_known_function");

    (void)state;
    assert_non_null(found);
    memcpy(&function, &found, sizeof found);
    assert_true(function == terp_test_known_function);
    assert_ptr_equal(terp_program_find("terp_test_known_variable"),
                     &terp_test_known_variable);
    assert_int_equal(local_variable, 44);
    assert_null(terp_program_find("local_variable"));
    assert_null(terp_program_find("_cmocka_run_group_tests"));
    assert_null(terp_program_find("terp_test_known_functio"));
    assert_null(terp_program_find("terp_test_known_function_that_is_not"));
}

static void
file_that_cannot_be_read_has_no_symbols(void **state)
{
    static const char *const name = "terp_test_known_function";

    (void)state;
    fails_to_open = true;
    assert_null(terp_program_find(name));
    fails_to_open = false;
    fails_to_stat = true;
    assert_null(terp_program_find(name));
    fails_to_stat = false;
    fails_to_map = true;
    assert_null(terp_program_find(name));
    fails_to_map = false;
    assert_null(found_in(original, 0, name));
    assert_non_null(found_in(original, original_nbytes, name));
}

static void
damaged_file_has_no_symbols(void **state)
{
    static const char *const name = "terp_test_known_function";
    unsigned char *bytes = malloc(original_nbytes);

    (void)state;
    assert_non_null(bytes);
    for (int i = 0; i < 12; i++) {
        memcpy(bytes, original, original_nbytes);
        ElfW(Ehdr) *head = (ElfW(Ehdr) *)bytes;
        ElfW(Shdr) *table = table_of(bytes);
        ElfW(Shdr) *strings = sections_of(bytes) + table->sh_link;
        ElfW(Sym) *symbol = symbol_of(bytes, name);
        switch (i) {
        case 0:
            bytes[1] = 'L';
            break;
        case 1:
            head->e_shoff = original_nbytes + 1;
            break;
        case 2:
            head->e_shoff = original_nbytes - 1;
            break;
        case 3:
            table->sh_link = head->e_shnum;
            break;
        case 4:
            table->sh_offset = original_nbytes - 100;
            break;
        case 5:
            strings->sh_offset = (ElfW(Off)) - 1;
            break;
        case 6:
            strings->sh_size = original_nbytes;
            break;
        case 7:
            symbol->st_name = (ElfW(Word))strings->sh_size;
            break;
        case 8:
            symbol->st_name = (ElfW(Word))strings->sh_size - 4;
            break;
        case 9:
            symbol->st_shndx = SHN_UNDEF;
            break;
        case 10:
            symbol->st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC);
            break;
        default:
            symbol->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_SECTION);
        }
        assert_null(found_in(bytes, original_nbytes, name));
    }
    free(bytes);
}

static void
file_that_ends_early_is_survived(void **state)
{
    static const char *const name = "terp_test_known_function";

    (void)state;
    for (size_t n = 1; n < original_nbytes; n += n < 200 ? 1 : n / 7)
        assert_null(found_in(original, n, name));
}

static void
addresses_of_the_program_are_told(void **state)
{
    void *in_library = dlsym(RTLD_DEFAULT, "fstat");
    const int on_stack = 0;

    (void)state;
    assert_true(terp_program_holds(&terp_test_known_variable));
    assert_true(terp_program_holds(path));
    assert_false(terp_program_holds(in_library));
    assert_false(terp_program_holds(&on_stack));
    assert_false(terp_program_holds(NULL));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_are_found_where_they_are),
        cmocka_unit_test(file_that_cannot_be_read_has_no_symbols),
        cmocka_unit_test(damaged_file_has_no_symbols),
        cmocka_unit_test(file_that_ends_early_is_survived),
        cmocka_unit_test(addresses_of_the_program_are_told),
    };
    return cmocka_run_group_tests(tests, read_original, remove_copy);
}
