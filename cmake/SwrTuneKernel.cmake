# swr_tune_kernel(TARGET <target> SPEC <file> [NAME <name>] [DATABASE <file>] [GPUS <gpu>...]
#                 [ARGS <size=n>...])
#
# Builds a tuned kernel of yours (docs/kernels.md) into TARGET. Nothing is tuned while building, and
# no GPU is needed: the winners of DATABASE, which `swr-tune kernel SPEC --db DATABASE` wrote, are
# compiled in. With GPUS those of these GPUs, and where nothing was measured the kernel's default
# variant for the sizes of ARGS. NAME, which is the spec's file name with _kernels unless it is given, is the
# namespace, and the folder of the header: #include <blur_kernels/blur.h>.
#
# The package is written when CMake runs, again where the spec, a source beside it or the database
# changed. It needs NVRTC, of the CUDA toolkit, as swr-tune does.
function(swr_tune_kernel)
  cmake_parse_arguments(ARG "" "TARGET;SPEC;NAME;DATABASE" "GPUS;ARGS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_TARGET OR NOT ARG_SPEC)
    message(FATAL_ERROR "swr_tune_kernel takes TARGET and SPEC, and NAME, DATABASE, GPUS, ARGS; "
      "it does not know: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT ARG_DATABASE AND NOT ARG_GPUS)
    message(FATAL_ERROR "swr_tune_kernel needs a DATABASE with results, or GPUS to compile the "
      "default variant for")
  endif()
  get_filename_component(spec "${ARG_SPEC}" ABSOLUTE)
  get_filename_component(folder "${spec}" DIRECTORY)
  if(NOT ARG_NAME)
    get_filename_component(stem "${spec}" NAME_WE)
    string(MAKE_C_IDENTIFIER "${stem}_kernels" ARG_NAME)
  endif()
  set(out "${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}")
  set(database "${out}.none.db")
  if(ARG_DATABASE)
    get_filename_component(database "${ARG_DATABASE}" ABSOLUTE)
    if(NOT EXISTS "${database}")
      message(FATAL_ERROR "swr_tune_kernel: there is no database ${database}")
    endif()
  endif()
  find_program(SWR_TUNE_PROGRAM swr-tune HINTS "${SWR_PROGRAM_DIR}" REQUIRED)

  set(command "${SWR_TUNE_PROGRAM}" export --spec "${spec}" --format cpp --name "${ARG_NAME}"
      --out "${out}" --db "${database}")
  foreach(argument IN LISTS ARG_ARGS)
    list(APPEND command --arg "${argument}")
  endforeach()
  if(ARG_GPUS)
    list(JOIN ARG_GPUS "," gpus)
    list(APPEND command --gpu "${gpus}")
  endif()
  execute_process(COMMAND ${command} RESULT_VARIABLE failure OUTPUT_VARIABLE output
    ERROR_VARIABLE error)
  if(failure)
    message(FATAL_ERROR "swr_tune_kernel: ${error}")
  endif()
  string(STRIP "${output}" output)
  message(STATUS "swr_tune_kernel: ${output}")

  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cu" "${folder}/*.cuh" "${folder}/*.h")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${spec}" ${sources})
  if(ARG_DATABASE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${database}")
  endif()
  add_subdirectory("${out}" "${out}-build" EXCLUDE_FROM_ALL)
  target_link_libraries(${ARG_TARGET} PRIVATE ${ARG_NAME}::${ARG_NAME})
endfunction()
