/* The codec's description in filter/plugin/nczarr.c has the layout that
 * netCDF's own header declares. Compiling is the test. */
#include <netcdf.h>
#include <netcdf_filter_build.h>
#include <stddef.h>

#include "filter/plugin/nczarr.c"

#define SAME(member, of_netcdf)                                  \
    _Static_assert(offsetof(struct terp_nczarr_codec, member) == \
                       offsetof(NCZ_codec_t, of_netcdf),         \
                   #member " lies where netCDF expects " #of_netcdf)
SAME(version, version);
SAME(sort, sort);
SAME(codec_id, codecid);
SAME(filter_id, hdf5id);
SAME(initialize, NCZ_codec_initialize);
SAME(finalize, NCZ_codec_finalize);
SAME(read_json, NCZ_codec_to_hdf5);
SAME(write_json, NCZ_hdf5_to_codec);
SAME(modify, NCZ_modify_parameters);
_Static_assert(sizeof(struct terp_nczarr_codec) == sizeof(NCZ_codec_t) &&
                   NCZ_CODEC_CLASS_VER == 1 && NCZ_CODEC_HDF5 == 1,
               "the description is netCDF's");
_Static_assert(NETCDF_OK == NC_NOERR && NETCDF_NO_MEMORY == NC_ENOMEM &&
                   NETCDF_FILTER_ERROR == NC_EFILTER &&
                   NETCDF_CHUNKED == NC_CHUNKED &&
                   NETCDF_BIG_ENDIAN == NC_ENDIAN_BIG && NC_BYTE == 1 &&
                   NC_CHAR == 2 && NC_SHORT == 3 && NC_INT == 4 &&
                   NC_FLOAT == 5 && NC_DOUBLE == 6 && NC_UBYTE == 7 &&
                   NC_USHORT == 8 && NC_UINT == 9 && NC_INT64 == 10 &&
                   NC_UINT64 == 11,
               "the numbers are netCDF's");

/* Assigning checks the types of the functions. */
const NCZ_codec_t terp_test_codec = {
    .NCZ_codec_to_hdf5 = read_json,
    .NCZ_hdf5_to_codec = write_json,
    .NCZ_modify_parameters = modify,
};
static const struct calls terp_test_calls = {
    nc_inq_var,      nc_inq_var_chunking, nc_inq_var_endian,
    nc_inq_var_fill, nc_inq_att,          nc_get_att_double};
const void *const terp_test_uses = &terp_test_calls;
