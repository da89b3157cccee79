# Headers that nearly every source of the libraries includes, read once. Sources still include what they
# use; -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON shows where one does not.
set(SWR_PRECOMPILED_HEADERS <algorithm> <array> <charconv> <chrono> <cmath> <cstddef> <cstdint>
    <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <ostream>
    <set> <span> <sstream> <stop_token> <string> <string_view> <thread> <tuple> <utility> <variant>
    <vector> <nlohmann/json.hpp>)

file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cpp" CONTENT "")
function(swr_precompile name)
  add_library(${name} OBJECT "${PROJECT_BINARY_DIR}/precompiled.cpp")
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${name} PRIVATE ${ARGN})
  target_link_libraries(${name} PRIVATE nlohmann_json::nlohmann_json swr_warnings)
  target_precompile_headers(${name} PRIVATE ${SWR_PRECOMPILED_HEADERS})
endfunction()
swr_precompile(swr_precompiled)

# COLD sources of swr_add_library(). A compiler takes only what was precompiled with a source's own options.
set(SWR_COLD_OPTIONS "")
set(SWR_COLD_PRECOMPILED swr_precompiled)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(SWR_COLD_OPTIONS -O1)
  set(SWR_COLD_PRECOMPILED swr_precompiled_cold)
  swr_precompile(swr_precompiled_cold ${SWR_COLD_OPTIONS})
endif()

# Programs of a folder and of those below it read the libraries' headers once too.
function(swr_precompile_programs folder)
  get_property(programs DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(program IN LISTS programs)
    target_compile_options(${program} PRIVATE -fPIC)  # As the headers were compiled.
    target_precompile_headers(${program} REUSE_FROM swr_precompiled)
  endforeach()
  get_property(below DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  foreach(one IN LISTS below)
    swr_precompile_programs("${one}")
  endforeach()
endfunction()
