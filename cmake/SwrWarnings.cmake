# Warnings for swr's own targets only; never exported to users of the package.
add_library(swr_warnings INTERFACE)
target_compile_options(swr_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast -Woverloaded-virtual -Wnon-virtual-dtor
  # Designated initialisers leave members to their defaults on purpose.
  -Wno-missing-field-initializers
  # GCC 12 sees overlapping copies in std::string operator+ that do not exist (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # Embedded files are literals longer than the 65536 characters that the standard asks for.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-overlength-strings>)
option(SWR_WARNINGS_AS_ERRORS "Stop the build at the first warning" OFF)
if(SWR_WARNINGS_AS_ERRORS)
  target_compile_options(swr_warnings INTERFACE -Werror)
endif()
