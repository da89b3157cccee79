# Run by swr_embed_files: writes OUTPUT with the text of every file of FILES, from BASE or else from
# WRITTEN_BASE. The literals are string views, whose length the compiler knows: counting would exceed clang's
# limit of steps.
string(REPLACE "|" ";" files "${FILES}")
set(delimiter "SWR_EMBEDDED")
set(rows "")
foreach(path IN LISTS files)
  set(folder "${BASE}")
  if(NOT EXISTS "${BASE}/${path}")
    set(folder "${WRITTEN_BASE}")
  endif()
  file(READ "${folder}/${path}" text)
  if(text MATCHES "\\)${delimiter}\"")
    message(FATAL_ERROR "${path} contains the raw-string delimiter )${delimiter}\"")
  endif()
  string(APPEND rows "    {\"${path}\", R\"${delimiter}(${text})${delimiter}\"sv},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Generated; do not edit.
#include \"core/embedded_file.h\"

namespace swr {
std::span<const EmbeddedFile> ${SYMBOL}();
std::span<const EmbeddedFile> ${SYMBOL}() {
  using namespace std::string_view_literals;
  static constexpr EmbeddedFile kFiles[] = {
${rows}  };
  return kFiles;
}
}  // namespace swr
")
