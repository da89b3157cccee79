// SPDX-License-Identifier: MIT
// Calls of the C interface with structures of any content. Pointers are valid or NULL, as C has to
// promise.
#include "fuzz/harness.h"
#include "fuzz/stored.h"
#include <swr/swr_backward_c.h>
#include <swr/swr_c.h>
#include <swr/swr_kernel_c.h>
#include <swr/swr_serving_c.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace swr::fuzz {
namespace {

swr_lookup* open_lookup() {
  swr_lookup* lookup = nullptr;
  const auto path = write_input("c.db", stored_database());
  require(swr_lookup_open(path.c_str(), nullptr, &lookup) == SWR_OK, "a sound database opens");
  return lookup;
}

/// As a C program would see it.
void check(swr_status status) {
  require(status == SWR_OK || std::strlen(swr_last_error()) > 0, "an error says what it is");
  require(status != SWR_INTERNAL, "nothing fails unexpectedly");
}

template <typename Answer>
void check(swr_status status, const Answer& answer) {
  check(status);
  if (status == SWR_OK) {
    require(std::memchr(answer.variant, '\0', sizeof(answer.variant)) != nullptr, "a text ends");
    require(!std::isnan(answer.time_us), "a time is a number");
  }
}

/// Read once: most of a call's time would go into the profile.
const swr_device& known_device() {
  static const swr_device device = [] {
    swr_device profiled{};
    require(swr_profiled_device("h200", &profiled) == SWR_OK, "a profile that comes with swr");
    return profiled;
  }();
  return device;
}

/// Structures as the input has them; every other one is a device that exists.
swr_device device_of(Bytes& input) {
  return input.byte() % 2 == 0 ? input.value<swr_device>() : known_device();
}

void ask(const swr_lookup* lookup, Bytes& input) {
  const swr_device device = device_of(input);
  const auto problem = input.value<swr_problem>();
  swr_answer answer{};
  check(swr_lookup_best(lookup, &problem, &device, &answer), answer);
}

void ask_gemm(const swr_lookup* lookup, Bytes& input) {
  const swr_device device = device_of(input);
  const auto problem = input.value<swr_gemm_problem>();
  swr_gemm_answer answer{};
  check(swr_lookup_best_gemm(lookup, &problem, &device, &answer), answer);
}

/// A name, never the path of a file elsewhere.
std::string name_of(Bytes& input) {
  std::string name(input.text(input.byte() % 32));
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

void find_device(Bytes& input) {
  swr_device device{};
  check(swr_profiled_device(name_of(input).c_str(), &device));
}

void open_again(Bytes& input) {
  const std::string state = name_of(input);
  swr_lookup* lookup = nullptr;
  const auto path = directory() / (input.byte() % 2 == 0 ? "c.db" : "none.db");
  check(swr_lookup_open(path.c_str(), state.c_str(), &lookup));
  swr_lookup_close(lookup);
}

void pass_null(const swr_lookup* lookup, Bytes& input) {
  const auto problem = input.value<swr_problem>();
  swr_answer answer{};
  check(swr_lookup_best(lookup, &problem, nullptr, &answer));
  check(swr_lookup_best(nullptr, &problem, nullptr, nullptr));
  check(swr_lookup_open(nullptr, nullptr, nullptr));
  swr_lookup_close(nullptr);
  swr_runtime_destroy(nullptr);
}

/// Without a driver a runtime answers what it lacks; it must not touch the tensors.
swr_runtime* runtime_of_all() {
  static swr_runtime* const runtime = [] {
    swr_runtime* created = nullptr;
    const std::string path = (directory() / "c.db").string();
    const std::string cache = (directory() / "cache").string();
    const swr_runtime_options options{.database = path.c_str(),
                                      .exported = nullptr,
                                      .cache_dir = cache.c_str(),
                                      .nvrtc = nullptr,
                                      .may_compile = 0,
                                      .l2_state = nullptr};
    require(swr_runtime_create(&options, &created) == SWR_OK, "a runtime needs no driver");
    return created;
  }();
  return runtime;
}

void run(Bytes& input) {
  swr_runtime* const runtime = runtime_of_all();
  auto attention = input.value<swr_attention>();
  auto gemm = input.value<swr_gemm>();
  check(swr_runtime_attention(runtime, &attention, nullptr));
  check(swr_runtime_gemm(runtime, &gemm, nullptr));
}

/// A structure with bytes behind it, which its size may claim: half of the sizes are right.
template <typename Structure>
struct Sized {
  Structure known;
  char behind[4096];

  explicit Sized(Bytes& input) : known(input.value<Structure>()), behind{} {
    const unsigned choice = input.byte();
    behind[choice] = static_cast<char>(choice % 4 == 0 ? 1 : 0);
    known.size = choice % 2 == 0 ? sizeof(Structure) : known.size % (sizeof *this + 64);
    known.size = known.size > sizeof *this ? ~std::uint64_t{0} : known.size;
  }
};

/// With an appended part in every other call; its pointer is valid or NULL.
void serve(Bytes& input) {
  Sized<swr_serving_attention> attention(input);
  Sized<swr_kv_append> append(input);
  attention.known.append = input.byte() % 2 == 0 ? nullptr : &append.known;
  std::int64_t bytes = 0;
  check(swr_runtime_serving_attention(runtime_of_all(), &attention.known, nullptr));
  check(swr_runtime_prepare_serving(runtime_of_all(), &attention.known, &bytes));
  const Sized<swr_states> states(input);
  check(swr_merge_states(runtime_of_all(), &states.known, nullptr));
}

void go_backward(Bytes& input) {
  const Sized<swr_attention_backward> backward(input);
  std::int64_t bytes = 0;
  check(swr_runtime_prepare_backward(runtime_of_all(), &backward.known, &bytes));
  check(swr_runtime_attention_backward(runtime_of_all(), &backward.known, nullptr));
}

const swr_kernel* own_kernel() {
  static const swr_kernel* const kernel = [] {
    write_input("f.cu", "__global__ void f(float* y, int n) { y[0] = n; }\n");
    const auto spec = write_input("k.json", R"json({
      "swr_kernel": 1, "name": "fuzzed", "source": "f.cu", "entry": "f", "problem": {"n": 100},
      "parameters": {"block_size_x": [32, 64]}, "block": "block_size_x",
      "grid": "div_ceil(n, block_size_x)",
      "arguments": [{"name": "y", "type": "float*", "size": "n", "output": true},
                    {"name": "n", "type": "int", "value": "n"}]})json");
    const swr_kernel* known = nullptr;
    require(swr_kernel_register(spec.c_str(), &known) == SWR_OK, "a sound spec is understood");
    return known;
  }();
  return kernel;
}

/// As many sizes and arguments as there are, or fewer than none. An argument may claim any size:
/// no more than fits is read.
void launch_kernel(Bytes& input) {
  const auto sizes = input.value<std::array<std::int32_t, 3>>();
  const swr_device device = device_of(input);
  const int size_count = input.byte() % 5 - 1;
  const std::int32_t* const given = input.byte() % 8 == 0 ? nullptr : sizes.data();
  swr_kernel_answer answer{};
  check(swr_runtime_best_kernel(runtime_of_all(), own_kernel(), given, std::min(size_count, 3),
                                &device, &answer),
        answer);
  static const std::array<char, 64> kBytes{};
  std::array<swr_kernel_argument, 3> arguments{};
  for (swr_kernel_argument& argument : arguments) {
    const unsigned choice = input.byte();
    argument.bytes = choice % 8 == 0 ? nullptr : kBytes.data();
    argument.size = choice % 3 == 0 ? input.value<std::uint64_t>() : choice % 3 * 4;
  }
  const int count = input.byte() % 5 - 1;
  check(swr_runtime_launch_kernel(runtime_of_all(), own_kernel(), given, std::min(size_count, 3),
                                  arguments.data(), std::min(count, 3), nullptr, nullptr));
}

}  // namespace

void run_one(std::string_view input) {
  static swr_lookup* const lookup = open_lookup();
  Bytes calls(input);
  while (!calls.is_empty()) {
    switch (calls.byte() % 9) {
      case 0:
        ask(lookup, calls);
        break;
      case 1:
        ask_gemm(lookup, calls);
        break;
      case 2:
        find_device(calls);
        break;
      case 3:
        open_again(calls);
        break;
      case 4:
        pass_null(lookup, calls);
        break;
      case 5:
        run(calls);
        break;
      case 6:
        serve(calls);
        break;
      case 7:
        go_backward(calls);
        break;
      default:
        launch_kernel(calls);
    }
  }
}

}  // namespace swr::fuzz
