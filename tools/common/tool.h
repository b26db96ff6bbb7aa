/* What the commands of the terp tool share. */
#pragma once

/* Exit codes of every command; `terp --help` documents them. */
enum tool_exit {
    TOOL_OK = 0,
    TOOL_FOUND = 1,  /* a bound exceeded, a difference, a damaged chunk */
    TOOL_TROUBLE = 2 /* wrong usage, or a file that cannot be read */
};

/* A command gets its own argv, whose first word is "terp COMMAND". */
typedef int
tool_command(int argc, char **argv);

tool_command tool_args;
tool_command tool_advise;
tool_command tool_info;
tool_command tool_verify;
tool_command tool_compare;
tool_command tool_repack;
tool_command tool_preview;

/* Lets HDF5 find the plugin that was built or installed with this program,
 * after those in HDF5_PLUGIN_PATH. HDF5 ends its search at the first directory
 * that does not exist, so such directories are removed from its list. */
void
tool_plugin_dirs_add(void);
