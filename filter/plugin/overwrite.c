/* Remembers the lengths of decoded streams in a hash table. */
#include "filter/plugin/overwrite.h"

#include <pthread.h>
#include <stdatomic.h>

/* Not 1, which behind a file's cd_values is the version of the format. */
#define MARK 0x4E435A31u

struct slot {
    uint64_t age; /* larger: newer; 0: free */
    const void *values;
    uint64_t stream_nbytes;
    unsigned variable;
};

/* Slots for the chunks in netCDF's caches, which hold some thousands for each
 * variable at most. */
#define NSLOTS 65536

/* A stream lies in one of NPROBES slots from its hash on. */
#define NPROBES 16

static struct slot slots[NSLOTS + NPROBES];
static uint64_t age;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void
terp_overwrite_mark(unsigned words_ret[TERP_OVERWRITE_NWORDS])
{
    static atomic_uint nvariables;

    words_ret[0] = MARK;
    words_ret[1] = atomic_fetch_add(&nvariables, 1);
}

/* Whether netCDF passed these words, which were parsed to `cd`. */
static bool
is_marked(const struct terp_cd *cd, size_t nwords, const unsigned *words)
{
    unsigned persisted[TERP_CD_MAX_NWORDS];

    return nwords >= TERP_OVERWRITE_NWORDS &&
           words[nwords - TERP_OVERWRITE_NWORDS] == MARK && cd->persisted &&
           nwords - TERP_OVERWRITE_NWORDS == terp_cd_persist(cd, persisted);
}

/* The stream's slot; otherwise the one to write: a free one, or the oldest. */
static struct slot *
find(unsigned variable, const void *values)
{
    /* Allocated buffers begin at multiples of 16. */
    const uint64_t key = (uintptr_t)values / 16 ^ (uint64_t)variable << 40;
    struct slot *first = &slots[(key * UINT64_C(0x9E3779B97F4A7C15)) >> 48];
    struct slot *found = first;

    for (struct slot *slot = first; slot < first + NPROBES; slot++) {
        if (slot->age > 0 && slot->variable == variable &&
            slot->values == values)
            return slot;
        if (slot->age < found->age)
            found = slot;
    }
    return found;
}

void
terp_overwrite_note(const struct terp_cd *cd, size_t nwords,
                    const unsigned *words, const void *values,
                    uint64_t stream_nbytes)
{
    if (!is_marked(cd, nwords, words))
        return;
    const unsigned variable = words[nwords - 1];
    pthread_mutex_lock(&lock);
    *find(variable, values) =
        (struct slot){++age, values, stream_nbytes, variable};
    pthread_mutex_unlock(&lock);
}

uint64_t
terp_overwrite_take(const struct terp_cd *cd, size_t nwords,
                    const unsigned *words, const void *values)
{
    uint64_t nbytes = 0;

    if (!is_marked(cd, nwords, words))
        return 0;
    const unsigned variable = words[nwords - 1];
    pthread_mutex_lock(&lock);
    struct slot *slot = find(variable, values);
    if (slot->age > 0 && slot->variable == variable && slot->values == values) {
        nbytes = slot->stream_nbytes;
        slot->age = 0;
    }
    pthread_mutex_unlock(&lock);
    return nbytes;
}
