# Fails unless FILES have what HARDENED lists, from cmake/Hardening.cmake.
# stack-clash-protection does not show in a file.
#   cmake -DREADELF=... -DFILES=... -DHARDENED=... -P test_hardening.cmake
cmake_minimum_required(VERSION 3.22)
if(NOT READELF OR NOT EXISTS ${READELF})
  message("skipped: there is no readelf (Debian: binutils)")
  return()
endif()
list(LENGTH FILES nfiles)
if(nfiles EQUAL 0)
  message(FATAL_ERROR "no files")
endif()

set(shows_relro "GNU_RELRO")
set(shows_now "BIND_NOW|FLAGS_1[^\n]*NOW")
set(shows_noexecstack "GNU_STACK[^\n]* RW ")
set(shows_stack-protector-strong " __stack_chk_(fail|guard)")
# Functions of glibc whose names end in _chk; other C libraries have none.
set(shows_fortify " __[a-z]+_chk(@|\n)")
foreach(file ${FILES})
  execute_process(COMMAND ${READELF} -W -l -d --dyn-syms ${file}
                  OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  foreach(kind ${HARDENED})
    if(DEFINED shows_${kind} AND NOT text MATCHES "${shows_${kind}}")
      list(APPEND missing "${file}: ${kind}")
    endif()
  endforeach()
endforeach()
if(missing)
  string(JOIN "\n  " missing ${missing})
  message(FATAL_ERROR "not in compiled code:\n  ${missing}")
endif()
message("${nfiles} files have ${HARDENED}")
