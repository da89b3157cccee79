# swr_add_library(<name> SOURCES <files>... [PUBLIC <targets>...] [PRIVATE <targets>...])
# One library of swr: target swr_<name>, alias and exported name swr::<name>. Includes are written
# from the root of the project.
function(swr_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(swr_${name} STATIC ${ARG_SOURCES})
  add_library(swr::${name} ALIAS swr_${name})
  set_target_properties(swr_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_compile_features(swr_${name} PUBLIC cxx_std_20)
  target_include_directories(swr_${name}
    PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
           "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
           "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
    PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(swr_${name} PUBLIC ${ARG_PUBLIC}
    PRIVATE ${ARG_PRIVATE} "$<BUILD_INTERFACE:swr_warnings>")
endfunction()
