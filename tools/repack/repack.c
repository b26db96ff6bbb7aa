/* The commands terp repack and terp preview. */
#include <stdio.h>

#include "tools/common/text.h"
#include "tools/common/tool.h"
#include "tools/repack/copy.h"
#include "tools/repack/many.h"

/* Copies one file. */
static int
copy_one(const struct repack_request *request)
{
    struct repack_outcome outcome;

    repack_copy(request, &outcome);
    if (outcome.state == REPACK_FAILED)
        fprintf(stderr, "terp %s: %s: %s\n", request->command,
                tool_shown(outcome.object), tool_shown(outcome.reason));
    return outcome.state == REPACK_FAILED               ? TOOL_TROUBLE
           : outcome.nlost > 0 || outcome.nleft_out > 0 ? TOOL_FOUND
                                                        : TOOL_OK;
}

int
tool_repack(int argc, char **argv)
{
    struct repack_request request;

    if (!repack_request_read(argc, argv, &request)) {
        perror("terp repack");
        return TOOL_TROUBLE;
    }
    const int code = repack_is_of_many(&request) || request.json
                         ? repack_many(&request)
                         : copy_one(&request);
    repack_request_free(&request);
    return code;
}

int
tool_preview(int argc, char **argv)
{
    struct repack_request request;

    if (!repack_request_read_preview(argc, argv, &request)) {
        perror("terp preview");
        return TOOL_TROUBLE;
    }
    const int code = copy_one(&request);
    repack_request_free(&request);
    return code;
}
