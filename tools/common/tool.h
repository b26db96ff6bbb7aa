/* The commands of the terp tool. */
#pragma once

/* Exit codes of all commands; `terp --help` documents them. */
enum tool_exit {
    TOOL_OK = 0,
    TOOL_FOUND = 1,  /* a bound exceeded, a difference, a damaged chunk */
    TOOL_TROUBLE = 2 /* wrong usage, or a file that cannot be read */
};

/* A command. argv[0] is "terp COMMAND". */
typedef int
tool_command(int argc, char **argv);

tool_command tool_args;
tool_command tool_advise;
tool_command tool_info;
tool_command tool_verify;
tool_command tool_compare;
tool_command tool_report;
tool_command tool_repack;
tool_command tool_preview;

/* The message of commands that need the filter. */
#define TOOL_NO_PLUGIN                                                        \
    "HDF5 does not find the terp filter plugin; set HDF5_PLUGIN_PATH to the " \
    "directory that holds it"

/* Adds the plugin that was built or installed with this program to HDF5's
 * search path, after HDF5_PLUGIN_PATH. Removes directories that do not exist:
 * HDF5 would end its search at the first one. */
void
tool_plugin_dirs_add(void);
