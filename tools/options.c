#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "tool.h"

const char *const tool_pipelines[] = {"auto",  "huffman", "custom",
                                      "speed", "ratio",   NULL};
const char *const tool_predictors[] = {"auto", "spline", "lorenzo", NULL};

unsigned
tool_option_name(struct argp_state *state, const char *what, const char *text,
                 const char *const *names)
{
    for (unsigned i = 0; names[i] != NULL; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    argp_error(state, "there is no %s '%s'", what, text);
    return 0;
}

double
tool_option_number(struct argp_state *state, const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !is_bound(value))
        argp_error(state, "'%s' is not a finite number above zero", text);
    return value;
}

void
tool_option_missing(struct argp_state *state, const char *option,
                    const char *library)
{
    argp_failure(state, TOOL_TROUBLE, 0, "%s: built without %s", option,
                 library);
}
