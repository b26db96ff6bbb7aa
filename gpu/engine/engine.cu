/* The CUDA engine's table of functions (codec/engine.h). */
#include "gpu/engine/engine.cuh"

#include "gpu/engine/session.cuh"
#include "gpu/speed/speed.cuh"

static bool
has(const struct terp_session *session, const void *at)
{
    return !cuda_session_is_host(session, at);
}

static struct terp_engine
make_table(void)
{
    struct terp_engine table = {};

    table.instructions = "cuda";
    table.is_device = true;
    table.allocate = cuda_session_allocate;
    table.release = cuda_session_release;
    table.copy = cuda_session_copy;
    table.begin = cuda_encoding_begin;
    table.encode = cuda_encoding_encode;
    table.end = cuda_encoding_end;
    table.encode_speed = cuda_speed_encode;
    table.peek = cuda_streams_peek;
    table.decode = cuda_streams_decode;
    table.decode_whole = cuda_streams_decode_whole;
    table.verify = cuda_streams_verify_whole;
    table.has = has;
    table.measure = cuda_values_measure;
    table.compare = cuda_values_compare;
    table.split = cuda_values_split;
    table.join = cuda_values_join;
    table.gather = cuda_values_gather;
    table.leave_out = cuda_values_leave_out;
    table.put_back = cuda_values_put_back;
    table.follow = cuda_values_follow;
    table.search = cuda_search;
    table.differ = cuda_search_differ;
    table.forget = cuda_search_forget;
    table.sample = cuda_ranks_sample;
    table.unrank = cuda_ranks_follow;
    table.sample_grid = cuda_grid_sample;
    table.sample_rows = cuda_columns_sample;
    table.put_together = cuda_columns_put_together;
    table.assemble = cuda_streams_assemble;
    return table;
}

const struct terp_engine cuda_engine_table = make_table();
