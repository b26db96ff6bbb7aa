/* The reserve keeps large blocks of finished calls for later calls, up to a
 * limit, and frees them on request. */
#include <stdint.h>

#include "cpu/pool/pool.h"
#include "h5tests/support/cmocka_all.h"

#define MIB ((size_t)1 << 20)

static void
make_reserve(uint64_t limit_nbytes, struct terp_reserve *reserve_ret,
             struct terp_allocator *allocator_ret)
{
    *reserve_ret = (struct terp_reserve){.limit_nbytes = limit_nbytes};
    pthread_mutex_init(&reserve_ret->lock, NULL);
    *allocator_ret = (struct terp_allocator){.reserve = reserve_ret};
}

/* Allocates a block and returns it to the reserve. */
static void *
use(struct cpu_pool *pool, size_t nbytes)
{
    uint8_t *block = terp_cpu_memory_make(pool, nbytes);

    assert_non_null(block);
    block[0] = block[nbytes - 1] = 1;
    terp_cpu_memory_free(pool, block);
    return block;
}

static void
block_serves_again_where_it_fits(void **state)
{
    struct terp_reserve reserve;
    struct terp_allocator allocator;

    (void)state;
    make_reserve(64 * MIB, &reserve, &allocator);
    struct cpu_pool *pool = terp_cpu_pool_make(1, &allocator);
    void *block = use(pool, 8 * MIB);
    assert_int_equal(reserve.nbytes, 8 * MIB);
    terp_cpu_pool_free(pool);

    pool = terp_cpu_pool_make(2, &allocator);
    assert_ptr_equal(use(pool, 6 * MIB), block);
    assert_int_equal(reserve.nbytes, 8 * MIB);
    void *first = terp_cpu_memory_make(pool, 8 * MIB);
    assert_ptr_equal(first, block);
    assert_int_equal(reserve.nblocks, 0);
    void *second = terp_cpu_memory_make(pool, 16 * MIB);
    terp_cpu_memory_free(pool, second);
    terp_cpu_memory_free(pool, first);
    assert_int_equal(reserve.nbytes, 24 * MIB);
    assert_ptr_equal(use(pool, 16 * MIB - 1), second);
    use(pool, MIB);
    assert_int_equal(reserve.nblocks, 2);
    use(pool, 11 * MIB); /* no kept block fits, so they are freed */
    assert_int_equal(reserve.nblocks, 1);
    assert_int_equal(reserve.nbytes, 11 * MIB);
    terp_cpu_pool_free(pool);
    terp_cpu_reserve_trim(&reserve);
    assert_int_equal(reserve.nblocks, 0);
    assert_int_equal(reserve.nbytes, 0);
}

static void
limits_are_kept(void **state)
{
    struct terp_reserve reserve;
    struct terp_allocator allocator;
    void *block[TERP_RESERVE_NBLOCKS + 1];

    (void)state;
    make_reserve(40 * MIB, &reserve, &allocator);
    struct cpu_pool *pool = terp_cpu_pool_make(1, &allocator);
    use(pool, 41 * MIB);
    assert_int_equal(reserve.nblocks, 0);
    /* More blocks than the reserve can list, with more bytes than the limit. */
    for (int i = 0; i <= TERP_RESERVE_NBLOCKS; i++)
        block[i] = terp_cpu_memory_make(pool, 5 * MIB);
    for (int i = 0; i <= TERP_RESERVE_NBLOCKS; i++)
        terp_cpu_memory_free(pool, block[i]);
    assert_int_equal(reserve.nblocks, 8);
    assert_int_equal(reserve.nbytes, 40 * MIB);
    for (int i = 0; i < 6; i++)
        block[i] = terp_cpu_memory_make(pool, 5 * MIB);
    block[6] = terp_cpu_memory_make(pool, 11 * MIB);
    for (int i = 0; i <= 6; i++)
        terp_cpu_memory_free(pool, block[i]);
    assert_int_equal(reserve.nblocks, 6); /* the oldest block was freed */
    assert_int_equal(reserve.nbytes, 36 * MIB);
    terp_cpu_pool_free(pool);
    terp_cpu_reserve_trim(&reserve);
}

/* Like a child that was forked while another thread held the lock. */
static void
locked_reserve_is_done_without(void **state)
{
    struct terp_reserve reserve;
    struct terp_allocator allocator;

    (void)state;
    make_reserve(64 * MIB, &reserve, &allocator);
    struct cpu_pool *pool = terp_cpu_pool_make(1, &allocator);
    use(pool, 8 * MIB);
    pthread_mutex_lock(&reserve.lock);
    use(pool, 8 * MIB);
    terp_cpu_reserve_trim(&reserve);
    assert_int_equal(reserve.nblocks, 1);
    pthread_mutex_unlock(&reserve.lock);
    terp_cpu_pool_free(pool);
    terp_cpu_reserve_trim(&reserve);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_serves_again_where_it_fits),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(locked_reserve_is_done_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
