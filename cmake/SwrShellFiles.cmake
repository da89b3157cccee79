# Completion for shells and the manual page, written by the program itself.
set(SWR_SHELL_DIR "${PROJECT_BINARY_DIR}/shell")
set(_swr_shell_files "")
foreach(shell bash zsh fish)
  set(_swr_file "${SWR_SHELL_DIR}/swr-tune.${shell}")
  add_custom_command(OUTPUT "${_swr_file}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${SWR_SHELL_DIR}"
    COMMAND swr-tune completion ${shell} > "${_swr_file}"
    DEPENDS swr-tune VERBATIM)
  list(APPEND _swr_shell_files "${_swr_file}")
endforeach()
set(_swr_file "${SWR_SHELL_DIR}/swr-tune.1")
add_custom_command(OUTPUT "${_swr_file}"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${SWR_SHELL_DIR}"
  COMMAND swr-tune man-page > "${_swr_file}"
  DEPENDS swr-tune VERBATIM)
list(APPEND _swr_shell_files "${_swr_file}")
add_custom_target(shell_files ALL DEPENDS ${_swr_shell_files})
