// SPDX-License-Identifier: MIT
// Start here. Asking a database that swr-tune filled for the best variant:
//
//   swr::Lookup lookup("tuned.db");
//   swr::AttentionProblem problem{.seq_q = 4096, .seq_kv = 4096, .head_dim = 128};
//   use(lookup.best(problem, device).variant.as<swr::AttentionVariant>());
//
// and running it: swr::Runtime (runtime.h).
#pragma once

#include <swr/attention_params.h>
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/axes.h>
#include <swr/constraints.h>
#include <swr/device.h>
#include <swr/error.h>
#include <swr/gemm_params.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/generator.h>
#include <swr/kernel.h>
#include <swr/lookup.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/runtime.h>
#include <swr/search_space.h>
#include <swr/serving_attention_call.h>
#include <swr/store.h>
#include <swr/variant.h>
#include <swr/version.h>
