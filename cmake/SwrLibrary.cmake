option(SWR_JOIN_SOURCES "Compile the sources of a folder together: half the time of a whole build" OFF)

# swr_join_sources(<target> <files>...)
# One compilation for up to eight of the files of each folder.
function(swr_join_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # GCC 12 takes sources that are included for headers, whose local types no class may hold.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  foreach(source IN LISTS ARGN)
    get_filename_component(folder "${source}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "sources_${folder}" group)
    math(EXPR count "${count_${group}} + 1")
    set(count_${group} ${count})
    math(EXPR part "(${count} - 1) / 8")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}_${part}")
  endforeach()
endfunction()

# swr_compile_alone(<files>...)
# Sources with local names that others of their folder have too.
function(swr_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# swr_add_cold_sources(<target> <files>...)
# Gives the target the objects of these files, compiled as its own but with SWR_COLD_OPTIONS. They cannot
# be linked to what the target is linked to: libraries that need each other must be static.
function(swr_add_cold_sources target)
  add_library(${target}_cold OBJECT ${ARGN})
  set_target_properties(${target}_cold PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target}_cold PRIVATE "$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>")
  target_include_directories(${target}_cold SYSTEM PRIVATE
    "$<TARGET_PROPERTY:CudaHeaders::CudaHeaders,INTERFACE_INCLUDE_DIRECTORIES>")
  target_compile_definitions(${target}_cold PRIVATE "$<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>")
  target_compile_options(${target}_cold PRIVATE "$<TARGET_PROPERTY:${target},COMPILE_OPTIONS>"
    ${SWR_COLD_OPTIONS})
  target_precompile_headers(${target}_cold REUSE_FROM ${SWR_COLD_PRECOMPILED})
  if(SWR_JOIN_SOURCES)
    swr_join_sources(${target}_cold ${ARGN})
  endif()
  target_sources(${target} PRIVATE "$<TARGET_OBJECTS:${target}_cold>")
endfunction()

# swr_add_library(<name> [SOURCES <files>...] [COLD <files>...] [PUBLIC <targets>...] [PRIVATE <targets>...])
# One library of swr: target swr_<name>, alias and exported name swr::<name>. Includes are written
# from the root of the project. With SWR_JOIN_SOURCES the sources of a folder are compiled together,
# but for those that swr_compile_alone() names. COLD sources hold what runs once per command, waits for
# a database or prints: a release compiles them with SWR_COLD_OPTIONS, which takes a third less time.
function(swr_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;COLD;PUBLIC;PRIVATE" ${ARGN})
  add_library(swr_${name} STATIC ${ARG_SOURCES})
  add_library(swr::${name} ALIAS swr_${name})
  set_target_properties(swr_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON
    LINKER_LANGUAGE CXX)
  target_compile_features(swr_${name} PUBLIC cxx_std_20)
  target_include_directories(swr_${name}
    PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
           "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
           "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
    PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(swr_${name} PUBLIC ${ARG_PUBLIC}
    PRIVATE ${ARG_PRIVATE} "$<BUILD_INTERFACE:swr_warnings>")
  target_precompile_headers(swr_${name} REUSE_FROM swr_precompiled)
  if(SWR_JOIN_SOURCES)
    swr_join_sources(swr_${name} ${ARG_SOURCES})
  endif()
  if(ARG_COLD)
    swr_add_cold_sources(swr_${name} ${ARG_COLD})
  endif()

  # What swr_write_include_rules() needs.
  set(folders "")
  foreach(source IN LISTS ARG_SOURCES ARG_COLD)
    get_filename_component(folder "${CMAKE_CURRENT_SOURCE_DIR}/${source}" REALPATH)
    get_filename_component(folder "${folder}" DIRECTORY)
    file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${folder}")
    list(APPEND folders "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set(links ${ARG_PUBLIC} ${ARG_PRIVATE})
  list(FILTER links INCLUDE REGEX "^swr::")
  list(TRANSFORM links REPLACE "^swr::" "")
  set_property(GLOBAL APPEND PROPERTY SWR_LIBRARIES ${name})
  set_property(GLOBAL PROPERTY SWR_FOLDERS_OF_${name} ${folders})
  set_property(GLOBAL PROPERTY SWR_LINKS_OF_${name} ${links})
endfunction()

# swr_write_include_rules(<file>)
# One line per folder of a library, "folder: folder ...": those whose headers it may include, which
# are its library's own and those of the libraries that it links.
function(swr_write_include_rules file)
  get_property(libraries GLOBAL PROPERTY SWR_LIBRARIES)
  foreach(library IN LISTS libraries)
    set(reached ${library})
    set(frontier ${library})
    while(frontier)
      list(POP_FRONT frontier current)
      get_property(links GLOBAL PROPERTY SWR_LINKS_OF_${current})
      foreach(link IN LISTS links)
        if(NOT link IN_LIST reached)
          list(APPEND reached ${link})
          list(APPEND frontier ${link})
        endif()
      endforeach()
    endwhile()
    get_property(folders GLOBAL PROPERTY SWR_FOLDERS_OF_${library})
    foreach(folder IN LISTS folders)
      foreach(one IN LISTS reached)
        get_property(of_one GLOBAL PROPERTY SWR_FOLDERS_OF_${one})
        list(APPEND allowed_${folder} ${of_one})
      endforeach()
      list(REMOVE_DUPLICATES allowed_${folder})
      list(APPEND all_folders "${folder}")
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES all_folders)
  set(text "")
  foreach(folder IN LISTS all_folders)
    list(JOIN allowed_${folder} " " allowed)
    string(APPEND text "${folder}: ${allowed}\n")
  endforeach()
  file(WRITE "${file}" "${text}")
endfunction()
