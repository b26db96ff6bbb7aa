/* terp repack: prints the summary of many files as JSON. doc/terp.1 documents
 * the keys. */
#include "tools/common/json.h"

#include "tools/common/h5file.h"
#include "tools/repack/many.h"

static json_t *
make_file(const struct repack_file *file, const struct repack_outcome *outcome)
{
    const bool failed = outcome->state == REPACK_FAILED;
    const bool known = !failed && outcome->state != REPACK_STOPPED;
    json_t *object = json_object();

    tool_json_set_text(object, "in", file->in);
    tool_json_set_text(object, "out", file->out);
    tool_json_set_text(object, "state", repack_state_name(outcome->state));
    tool_json_set_text(object, "object", failed ? outcome->object : NULL);
    tool_json_set_text(object, "reason", failed ? outcome->reason : NULL);
    tool_json_set(object, "in_bytes",
                  known ? json_integer((json_int_t)outcome->in_nbytes)
                        : json_null());
    tool_json_set(object, "out_bytes",
                  known ? json_integer((json_int_t)outcome->out_nbytes)
                        : json_null());
    tool_json_set_number(object, "ratio",
                         tool_ratio(outcome->in_nbytes, outcome->out_nbytes));
    tool_json_set_count(object, "damaged_chunks", outcome->nlost);
    tool_json_set_count(object, "left_out", outcome->nleft_out);
    return object;
}

void
repack_many_print_json(const struct repack_many *many)
{
    const uint64_t *nof_state = many->nof_state;
    json_t *document = tool_json_document("repack");
    json_t *files = json_array(), *states = json_object();

    tool_json_set(document, "files", files);
    for (size_t i = 0; i < many->files.n; i++)
        tool_json_append(files,
                         make_file(&many->files.at[i], &many->outcomes[i]));
    tool_json_set(document, "states", states);
    for (int i = 0; i < REPACK_NSTATES; i++)
        tool_json_set_count(states, repack_state_name((enum repack_state)i),
                            nof_state[i]);
    tool_json_set_count(document, "not_hdf5", many->files.nothers);
    tool_json_set_count(document, "links", many->files.nlinks);
    tool_json_set_count(document, "in_bytes", many->in_nbytes);
    tool_json_set_count(document, "out_bytes", many->out_nbytes);
    tool_json_set_number(document, "ratio",
                         tool_ratio(many->in_nbytes, many->out_nbytes));
    tool_json_set_number(document, "seconds", many->seconds);
    tool_json_print(document);
}
