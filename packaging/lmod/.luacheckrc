-- What Lmod defines for modulefiles.
std = "lua53"
read_globals = {
    "conflict", "help", "myModuleVersion", "pathJoin", "prepend_path", "setenv",
    "whatis",
}
