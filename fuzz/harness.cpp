// SPDX-License-Identifier: MIT
// The entry point that libFuzzer and replay.cpp call.
#include "fuzz/harness.h"

#include "tests/support/temp_directory.h"
#include <swr/error.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace swr::fuzz {

void require(bool holds, std::string_view what) {
  if (!holds) {
    std::fprintf(stderr, "violated: %.*s\n", static_cast<int>(what.size()), what.data());
    std::abort();
  }
}

const std::filesystem::path& directory() {
  static const TempDirectory directory;
  return directory.path();
}

std::filesystem::path write_input(std::string_view name, std::string_view input) {
  const std::filesystem::path path = directory() / name;
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(input.data(), static_cast<std::streamsize>(input.size()));
  return path;
}

unsigned char Bytes::byte() { return value<unsigned char>(); }

std::string_view Bytes::text(std::size_t count) {
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(taken.size());
  return taken;
}

}  // namespace swr::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    swr::fuzz::run_one({reinterpret_cast<const char*>(data), size});
  } catch (const swr::Error& error) {
    const std::string message = error.what();
    swr::fuzz::require(!message.empty(), "an error has a message");
  }
  return 0;
}
