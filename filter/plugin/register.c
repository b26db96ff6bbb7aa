/* Registers the filter of a program that is linked with it. */
#include "filter/plugin/h5z_terp.h"
#include "filter/plugin/host.h"

int
H5Z_terp_register(void)
{
    return H5Zregister(terp_filter_class()) < 0 ? -1 : 0;
}
