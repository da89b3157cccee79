// SPDX-License-Identifier: MIT
// Random calls of the kernel that appends to the caches, everything of them in memory, and what
// must be there afterwards. Who launches is not known here.
#pragma once

#include "operations/attention_serving/launch_plan.h"
#include "tests/emulation/serving_problem.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace swr::serving_test {

using Elements = std::vector<std::uint16_t>;

/// One call for `batch` sequences, all of it in memory.
class Appending {
 public:
  Appending(DType dtype, unsigned seed) : dtype_(dtype), random_(seed) {
    batch_ = drawn(random_, 1, 9);
    heads_kv_ = drawn(random_, 1, 3);
    heads_q_ = heads_kv_ * drawn(random_, 1, 3);
    head_dim_ = 16 * drawn(random_, 1, 8);
    head_dim_v_ = one_in(random_, 2) ? head_dim_ : 16 * drawn(random_, 1, 8);
    turns_ = !one_in(random_, 4);
    rotary_dim_ = 16 * drawn(random_, 1, head_dim_ / 16);
    interleaved_ = one_in(random_, 2);
    advances_ = !one_in(random_, 3);
    ragged_ = one_in(random_, 2);
    paged_ = !one_in(random_, 3);
    page_size_ = drawn(random_, 1, 20);
    given_positions_ = one_in(random_, 3);
    lay_out();
    point();
  }

  const KvAppendParams& params() const { return params_; }

  /// Calls `take(array)` for every array that the parameters may point to.
  template <typename Take>
  void for_each_array(const Take& take) {
    for (Elements* const elements : {&k_new_, &v_new_, &q_, &k_, &v_, &q_rotated_, &cos_, &sin_}) {
      take(*elements);
    }
    for (auto* const values : {&cached_, &cu_new_, &cu_q_, &positions_, &table_}) {
      take(*values);
    }
  }

  /// Elements of the caches and of the turned queries that are not as they should be, those that
  /// should not have changed included.
  int wrong_elements() {
    int wrong = 0;
    const auto expect = [&](Elements& memory, std::size_t index, double value) {
      const double found = value_of(memory[index], dtype_);
      const double ulp = dtype_ == DType::bf16 ? 0x1p-8 : 0x1p-11;
      // Products may cancel: the error is one of their size.
      wrong += std::abs(found - value) <= 1.01 * ulp * std::abs(value) + 1e-5 ? 0 : 1;
      memory[index] = kPoison;
    };
    for (int i = 0; i < batch_; ++i) {
      for (int j = 0; j < added_[index(i)]; ++j) {
        const int row = cached_[index(i)] + j;
        for (int head = 0; head < heads_kv_ && row < room_; ++head) {
          for (int d = 0; d < head_dim_; ++d) {
            const auto element = [&](int column) {
              return value_of(k_new_[new_index(i, j, head, head_dim_) + index(column)], dtype_);
            };
            expect(k_, cache_index(i, row, head, head_dim_) + index(d),
                   turned(element, d, position(i) + j));
          }
          for (int d = 0; d < head_dim_v_; ++d) {
            const std::size_t from = new_index(i, j, head, head_dim_v_) + index(d);
            expect(v_, cache_index(i, row, head, head_dim_v_) + index(d),
                   value_of(v_new_[from], dtype_));
          }
        }
      }
      for (int query = 0; turns_ && query < seq_q_[index(i)]; ++query) {
        for (int head = 0; head < heads_q_; ++head) {
          const std::size_t first = q_index(i, query, head);
          for (int d = 0; d < head_dim_; ++d) {
            const auto element = [&](int column) {
              return value_of(q_[first + index(column)], dtype_);
            };
            expect(q_rotated_, first + index(d),
                   turned(element, d, position(i) + (advances_ ? query : 0)));
          }
        }
      }
    }
    for (const Elements* memory : {&k_, &v_, &q_rotated_}) {
      wrong += static_cast<int>(memory->size()) -
               static_cast<int>(std::count(memory->begin(), memory->end(), kPoison));
    }
    return wrong;
  }

  /// What the launch before writes.
  Elements& k_new() { return k_new_; }
  Elements& v_new() { return v_new_; }
  Elements& q() { return q_; }

 private:
  Elements normal_elements(int count) {
    std::normal_distribution<float> normal;
    Elements elements(index(count));
    std::generate(elements.begin(), elements.end(),
                  [&] { return bits_of(normal(random_), dtype_); });
    return elements;
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  void lay_out() {
    room_ = drawn(random_, 8, 60);
    cu_new_.assign(1, 0);
    cu_q_.assign(1, 0);
    const int equal = drawn(random_, 1, 4);
    for (int i = 0; i < batch_; ++i) {
      added_.push_back(ragged_ ? drawn(random_, 0, 6) : equal);
      cached_.push_back(drawn(random_, 0, room_));  // Some rows have no room.
      seq_q_.push_back(ragged_ ? drawn(random_, 0, 6) : equal);
      cu_new_.push_back(cu_new_.back() + added_.back());
      cu_q_.push_back(cu_q_.back() + seq_q_.back());
      positions_.push_back(drawn(random_, 0, 50));
    }
    pages_ = (room_ + page_size_ - 1) / page_size_;
    room_ = paged_ ? pages_ * page_size_ : room_;
    table_.resize(index(batch_ * pages_));
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), random_);
    k_.assign(index(batch_ * room_ * heads_kv_ * head_dim_), kPoison);
    v_.assign(index(batch_ * room_ * heads_kv_ * head_dim_v_), kPoison);
    k_new_ = normal_elements(cu_new_.back() * heads_kv_ * head_dim_);
    v_new_ = normal_elements(cu_new_.back() * heads_kv_ * head_dim_v_);
    q_ = normal_elements(cu_q_.back() * heads_q_ * head_dim_);
    q_rotated_.assign(q_.size(), kPoison);
    const int rows = 140;
    for (int row = 0; row < rows; ++row) {
      for (int pair = 0; pair < rotary_dim_ / 2; ++pair) {
        const double angle = row * std::pow(10000.0, -2.0 * pair / rotary_dim_);
        cos_.push_back(bits_of(static_cast<float>(std::cos(angle)), dtype_));
        sin_.push_back(bits_of(static_cast<float>(std::sin(angle)), dtype_));
      }
    }
  }

  void point() {
    ServingAttentionParams& attention = params_.attention;
    attention.q = q_.data();
    attention.k = k_.data();
    attention.v = v_.data();
    attention.q_strides = query_strides();
    params_.q_rotated_strides = query_strides();
    attention.k_strides = cache_strides(head_dim_);
    attention.v_strides = cache_strides(head_dim_v_);
    attention.batch = batch_;
    attention.heads_q = heads_q_;
    attention.heads_kv = heads_kv_;
    attention.max_seq_q = *std::max_element(seq_q_.begin(), seq_q_.end());
    attention.max_seq_kv = room_;
    attention.total_q = cu_q_.back();
    attention.lengths.seqused_k = cached_.data();
    if (ragged_) {
      attention.lengths.cu_seqlens_q = cu_q_.data();
      attention.lengths.cu_seqlens_k_new = cu_new_.data();
    } else {
      attention.lengths.seq_k_new = added_[0];
    }
    if (paged_) {
      attention.pages = {.table = table_.data(),
                         .table_stride = pages_,
                         .pages_per_sequence = pages_,
                         .page_size = page_size_};
    }
    params_.k_new = k_new_.data();
    params_.v_new = v_new_.data();
    params_.k_new_strides = new_strides(head_dim_);
    params_.v_new_strides = new_strides(head_dim_v_);
    params_.total_k_new = cu_new_.back();
    params_.head_dim = head_dim_;
    params_.head_dim_v = head_dim_v_;
    if (turns_) {
      params_.rotary = {.cos = cos_.data(),
                        .sin = sin_.data(),
                        .stride = rotary_dim_ / 2,
                        .dim = rotary_dim_,
                        .interleaved = interleaved_,
                        .first_position = given_positions_ ? positions_.data() : nullptr,
                        .advances_queries = advances_};
      params_.q_rotated = q_rotated_.data();
    }
  }
  TensorStrides query_strides() const {
    return {.batch = static_cast<long long>(seq_q_[0]) * heads_q_ * head_dim_,
            .head = head_dim_,
            .seq = heads_q_ * head_dim_};
  }
  TensorStrides new_strides(int columns) const {
    return {.batch = static_cast<long long>(added_[0]) * heads_kv_ * columns,
            .head = columns,
            .seq = heads_kv_ * columns};
  }
  /// Heads outside of rows, in pages as in batch items.
  TensorStrides cache_strides(int columns) const {
    const int rows = paged_ ? page_size_ : room_;
    return {.batch = rows * heads_kv_ * columns, .head = rows * columns, .seq = columns};
  }

  std::size_t new_index(int i, int row, int head, int columns) const {
    return index(((cu_new_[index(i)] + row) * heads_kv_ + head) * columns);
  }
  std::size_t q_index(int i, int query, int head) const {
    return index(((cu_q_[index(i)] + query) * heads_q_ + head) * head_dim_);
  }
  std::size_t cache_index(int i, int row, int head, int columns) const {
    const int rows = paged_ ? page_size_ : room_;
    const int container = paged_ ? table_[index(i * pages_ + row / page_size_)] : i;
    return index(((container * heads_kv_ + head) * rows + row % rows) * columns);
  }
  int position(int i) const { return given_positions_ ? positions_[index(i)] : cached_[index(i)]; }

  /// Column d of a row after the embedding.
  template <typename Element>
  double turned(const Element& element, int d, int at) const {
    if (!turns_ || d >= rotary_dim_) {
      return element(d);
    }
    const int half = rotary_dim_ / 2;
    const int pair = interleaved_ ? d / 2 : d % half;
    const bool is_second = interleaved_ ? d % 2 == 1 : d >= half;
    const int first = interleaved_ ? 2 * pair : pair;
    const int second = interleaved_ ? 2 * pair + 1 : pair + half;
    const auto angle = [&](const Elements& table) {
      return value_of(table[index(at * half + pair)], dtype_);
    };
    return is_second ? element(first) * angle(sin_) + element(second) * angle(cos_)
                     : element(first) * angle(cos_) - element(second) * angle(sin_);
  }

  DType dtype_;
  Random random_;
  int batch_;
  int heads_kv_;
  int heads_q_;
  int head_dim_;
  int head_dim_v_;
  bool turns_;
  int rotary_dim_;
  bool interleaved_;
  bool advances_;
  bool ragged_;
  bool paged_;
  int page_size_;
  bool given_positions_;
  int room_ = 0;  ///< Rows of a sequence's cache.
  int pages_ = 0;
  std::vector<int> added_;
  std::vector<int> cached_;
  std::vector<int> seq_q_;
  std::vector<int> cu_new_;
  std::vector<int> cu_q_;
  std::vector<int> positions_;
  std::vector<int> table_;
  Elements k_;
  Elements v_;
  Elements k_new_;
  Elements v_new_;
  Elements q_;
  Elements q_rotated_;
  Elements cos_;
  Elements sin_;
  KvAppendParams params_;
};

}  // namespace swr::serving_test
