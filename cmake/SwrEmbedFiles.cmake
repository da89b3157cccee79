# swr_embed_files(TARGET <target> SYMBOL <name> BASE <dir> FILES <path>... [WRITTEN <dir> <path>...])
# Compiles the files, given relative to BASE, into TARGET as
#   std::span<const swr::EmbeddedFile> swr::<name>()
# (core/embedded_file.h). Editing a file rebuilds one object. The paths of WRITTEN are relative to its own
# folder, where the build writes them.
function(swr_embed_files)
  cmake_parse_arguments(ARG "" "TARGET;SYMBOL;BASE" "FILES;WRITTEN" ${ARGN})
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${ARG_SYMBOL}.cpp")
  list(TRANSFORM ARG_FILES PREPEND "${ARG_BASE}/" OUTPUT_VARIABLE inputs)
  list(POP_FRONT ARG_WRITTEN written_base)
  foreach(path IN LISTS ARG_WRITTEN)
    list(APPEND inputs "${written_base}/${path}")
  endforeach()
  list(APPEND ARG_FILES ${ARG_WRITTEN})
  string(REPLACE ";" "|" joined "${ARG_FILES}")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output}" "-DSYMBOL=${ARG_SYMBOL}" "-DBASE=${ARG_BASE}"
            "-DWRITTEN_BASE=${written_base}" "-DFILES=${joined}" -P "${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake"
    DEPENDS ${inputs} "${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake"
    COMMENT "Embedding ${ARG_SYMBOL}" VERBATIM)
  target_sources(${ARG_TARGET} PRIVATE "${output}")
  # Reading the precompiled headers takes longer than the two headers that it includes.
  set_source_files_properties("${output}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
