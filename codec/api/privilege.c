/* Asks the system whether the process is privileged. */
#include "codec/api/privilege.h"

#include <stdlib.h>
#ifdef __linux__
#include <sys/auxv.h>
#elif defined(__APPLE__) || defined(__FreeBSD__)
#include <unistd.h>
#endif

bool
terp_is_privileged(void)
{
#ifdef __linux__
    return getauxval(AT_SECURE) != 0;
#elif defined(__APPLE__) || defined(__FreeBSD__)
    return issetugid() != 0;
#else
    return false; /* setuid programs exist on Unix only */
#endif
}

const char *
terp_getenv_of_file(const char *name)
{
    return terp_is_privileged() ? NULL : getenv(name);
}
