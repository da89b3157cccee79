// SPDX-License-Identifier: MIT
// Every operation that swr knows: the one place where an operation is registered.
#include "operations/attention_serving/serving_attention.h"
#include "operations/softmax/softmax.h"
#include <swr/attention_backward_problem.h>
#include <swr/attention_problem.h>
#include <swr/gemm_problem.h>
#include <swr/problem.h>

#include <array>

/// Those that come with swr; registered.cpp adds kernels of users.
namespace swr::own {

std::span<const Operation* const> operations() {
  static const std::array<const Operation*, 5> all{
      &attention_operation(), &gemm_operation(), &softmax_operation(),
      &serving_attention_operation(), &attention_backward_operation()};
  return all;
}

}  // namespace swr::own
