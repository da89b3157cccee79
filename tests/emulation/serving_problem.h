// SPDX-License-Identifier: MIT
// Random problems for the kernels over unequal sequences, everything of them in memory, and fp64 to
// compare with. Whatever a kernel has no business to read is NaN; whatever it has no business to
// write is watched. Who launches is not known here: the emulation does, and a program on a GPU.
#pragma once

#include "attention_serving/config.h"
#include "operations/attention_serving/launch_plan.h"
#include "tests/emulation/simt.h"
#include "tests/support/attention_reference.h"
#include "tests/support/float16.h"
#include "tests/support/with.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

namespace swr::serving_test {

using emulation::CopyTime;
using emulation::CtaOrder;
using emulation::Fault;
using emulation::Pace;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr std::uint16_t kPoison = 0xffff;  ///< NaN in both types.
inline constexpr float kUnwritten = 12345.0F;

using Random = std::mt19937;

inline int drawn(Random& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}
inline bool one_in(Random& random, int count) { return drawn(random, 1, count) == 1; }

/// What a launch is given, besides what the kernel is compiled for.
struct Problem {
  int batch = 2;
  int heads_q = 2;
  int heads_kv = 1;
  int max_seq_q = 1;
  int max_seq_kv = 100;
  bool ragged_q = true;        ///< cu_seqlens_q instead of a batch dimension.
  bool uses_fewer_q = false;   ///< seqused_q.
  bool ragged_k = false;       ///< cu_seqlens_k; not with pages.
  bool batch_indices = false;  ///< kv_batch_index; not with pages or ragged_k.
  bool appends = false;        ///< Lengths without the keys that the call appends.
  bool table_is_csr = false;
  bool heads_outside_rows = false;  ///< HND rather than NHD.
  bool k_and_v_together = false;    ///< [pages, 2, ...].
  int page_size = 16;
  bool lse_by_token = false;  ///< [tokens, heads] in base 2 rather than [heads, tokens] in base e.
  bool with_lse = true;
  std::optional<SinkType> sink_type{};
  float largest_sink = 4.0F;
  float value_scale = 1.0F;  ///< V is normal, times this.
  float cap = 20.0F;
  KeyWindow window;
  int section_heads = 1;
  ItemOrder item_order = ItemOrder::as_given;
  int item_overhead = 1;
  int least_units = 1;
  int workers = 5;
  bool lengths_are_ready = false;  ///< When the launch before has not ended yet.
  CopyTime copies = CopyTime::late;
  Pace pace = Pace::first_warp_ahead;
  CtaOrder ctas = CtaOrder::ascending;
  Fault fault = Fault::none;
  /// Per sequence: queries, keys, and rows before them.
  std::vector<int> seq_q{};
  std::vector<int> seq_kv{};
  std::vector<int> leftpad{};
};

inline std::ostream& operator<<(std::ostream& out, const Problem& p) {
  out << "heads " << p.heads_q << "/" << p.heads_kv << " max " << p.max_seq_q << "/" << p.max_seq_kv
      << " ragged_q " << p.ragged_q << " seqused_q " << p.uses_fewer_q << " ragged_k " << p.ragged_k
      << " batch_indices " << p.batch_indices << " appends " << p.appends << " csr "
      << p.table_is_csr << " hnd " << p.heads_outside_rows << " together " << p.k_and_v_together
      << " page " << p.page_size << " lse_by_token " << p.lse_by_token << " sinks "
      << p.sink_type.has_value() << " window " << p.window.left << " " << p.window.right << " "
      << p.window.chunk << " sections " << p.section_heads << " order "
      << static_cast<int>(p.item_order) << " overhead " << p.item_overhead << " least "
      << p.least_units << " workers " << p.workers << " lengths";
  for (std::size_t i = 0; i < p.seq_q.size(); ++i) {
    out << " " << p.seq_q[i] << ":" << p.seq_kv[i]
        << (p.leftpad.empty() ? "" : "+" + std::to_string(p.leftpad[i]));
  }
  return out;
}

/// One row of O and its log-sum-exp.
struct Row {
  std::vector<double> o;
  double lse = -kInfinity;
};

/// What an array is to a launch.
enum class ArrayUse {
  tensor,  ///< Q, K and V: what the launch before may still write.
  length,  ///< The same, unless lengths are ready.
  page,    ///< As lengths.
  other,
};

/// One launch and everything in memory around it.
class ServingMemory {
 public:
  ServingMemory(const ServingAttentionConfig& config, const Problem& problem, unsigned seed)
      : c_(config), p_(problem), random_(seed) {
    lay_out_queries();
    lay_out_keys();
    fill();
    point_parameters();
  }

  /// What the launch of the configuration's own kernel needs.
  ServingLaunch prepare() {
    return prepare({.tiles = c_.tiles(),
                    .head_dim_v = c_.head_dim_v,
                    .threads = c_.threads(),
                    .fixed_smem_bytes = c_.fixed_smem_bytes(),
                    .persistence = c_.persistence,
                    .workers = p_.workers});
  }
  /// What a launch needs; its workspace is in place, all NaN.
  ServingLaunch prepare(const ServingLaunchPlan& plan) {
    const ServingLaunch launch = serving_launch(plan, params_);
    partials_.assign(static_cast<std::size_t>(launch.partials_bytes / 4), NAN);
    arrivals_.assign(static_cast<std::size_t>(launch.arrival_words), 0);
    params_.partials = partials_.data();
    params_.arrivals = arrivals_.data();
    return launch;
  }
  const ServingAttentionParams& params() const { return params_; }

  /// Values that differ from the reference by more than rounding explains.
  int wrong_values() {
    int wrong = 0;
    for (int i = 0; i < p_.batch; ++i) {
      for (int query = 0; query < at(p_.seq_q, i); ++query) {
        for (int head = 0; head < p_.heads_q; ++head) {
          const Row expected = this->expected(i, query, head);
          const double share = share_of_keys(i, query, head, expected.lse);
          for (int d = 0; d < c_.head_dim_v; ++d) {
            const std::size_t index = o_index(i, query, head) + static_cast<std::size_t>(d);
            const double value = value_of(o_[index], c_.dtype);
            wrong +=
                is_near(value, expected.o[static_cast<std::size_t>(d)], share)
                    ? 0
                    : noted({i, query, head, d, value, expected.o[static_cast<std::size_t>(d)]});
            o_[index] = kPoison;
          }
          if (p_.with_lse) {
            const double unit = p_.lse_by_token ? std::log(2.0) : 1.0;
            float& lse = lse_[lse_index(i, query, head)];
            const double value = static_cast<double>(lse) * unit;
            wrong += is_near_lse(value, expected.lse)
                         ? 0
                         : noted({i, query, head, -1, value, expected.lse});
            lse = kUnwritten;
          }
        }
      }
    }
    return wrong;
  }
  /// The first value that wrong_values() has found; column -1 is a log-sum-exp.
  struct WrongValue {
    int sequence = -1;
    int query = 0;
    int head = 0;
    int column = 0;
    double found = 0.0;
    double expected = 0.0;
  };
  const WrongValue& first_wrong() const { return first_wrong_; }
  /// Writes to anything but the rows of O and the log-sum-exps that wrong_values() has looked at,
  /// and words that the launch after this one would not find at 0.
  int disturbed() const {
    const auto o = std::count_if(o_.begin(), o_.end(), [](auto bits) { return bits != kPoison; });
    const auto lse =
        std::count_if(lse_.begin(), lse_.end(), [](float value) { return value != kUnwritten; });
    const auto words =
        std::count_if(arrivals_.begin(), arrivals_.end(), [](auto w) { return w != 0; });
    return static_cast<int>(o + lse + words);
  }

  /// Parts of items that CTAs have left for others to combine.
  int parts_left() const {
    const auto floats = static_cast<std::size_t>(c_.pv().partial_floats());
    int parts = 0;
    for (std::size_t first = 0; first < partials_.size(); first += floats) {
      parts += std::isnan(partials_[first]) ? 0 : 1;
    }
    return parts;
  }

  /// Whether a line begins within a row of K or V of some sequence.
  bool is_key_row(const void* line) const {
    const auto offset =
        static_cast<std::size_t>(static_cast<const std::uint16_t*>(line) - kv_.data());
    for (int i = 0; i < p_.batch; ++i) {
      for (int key = 0; key < at(p_.seq_kv, i); ++key) {
        for (int head = 0; head < p_.heads_kv; ++head) {
          const std::size_t k = k_index(i, key, head);
          const std::size_t v = v_index(i, key, head);
          if ((k <= offset && offset < k + static_cast<std::size_t>(c_.head_dim)) ||
              (v <= offset && offset < v + static_cast<std::size_t>(c_.head_dim_v))) {
            return true;
          }
        }
      }
    }
    return false;
  }

  /// Calls `take(array, use)` for every array that the parameters may point to.
  template <typename Take>
  void for_each_array(const Take& take) {
    for (auto* const values : {&q_, &kv_}) {
      take(*values, ArrayUse::tensor);
    }
    for (auto* const values : {&cu_q_, &used_q_, &used_k_, &cu_k_, &cu_new_, &padding_,
                               &batch_index_, &indptr_, &last_page_len_}) {
      take(*values, ArrayUse::length);
    }
    for (auto* const values : {&table_, &indices_}) {
      take(*values, ArrayUse::page);
    }
    for (auto* const values : {&o_, &short_sinks_}) {
      take(*values, ArrayUse::other);
    }
    for (auto* const values : {&lse_, &sinks_, &partials_}) {
      take(*values, ArrayUse::other);
    }
    take(arrivals_, ArrayUse::other);
  }

  /// Takes Q, K, V and sinks of another problem that has the same sequences.
  void take_values(const ServingMemory& other) {
    for (int i = 0; i < p_.batch; ++i) {
      for (int head = 0; head < p_.heads_q; ++head) {
        for (int query = 0; query < at(p_.seq_q, i); ++query) {
          std::copy_n(other.q_.begin() + static_cast<long>(other.q_index(i, query, head)),
                      c_.head_dim, q_.begin() + static_cast<long>(q_index(i, query, head)));
        }
      }
      for (int head = 0; head < p_.heads_kv; ++head) {
        for (int key = 0; key < at(p_.seq_kv, i); ++key) {
          std::copy_n(other.kv_.begin() + static_cast<long>(other.k_index(i, key, head)),
                      c_.head_dim, kv_.begin() + static_cast<long>(k_index(i, key, head)));
          std::copy_n(other.kv_.begin() + static_cast<long>(other.v_index(i, key, head)),
                      c_.head_dim_v, kv_.begin() + static_cast<long>(v_index(i, key, head)));
        }
      }
    }
    sinks_ = other.sinks_;
  }
  /// Pages or batch items of K and V.
  int container_count() const { return kv_containers_; }
  const std::vector<int>& page_table() const { return table_; }
  /// Calls take(page, first element of K, first element of V).
  template <typename Take>
  void for_each_page(const Take& take) const {
    for (int page = 0; page < kv_containers_; ++page) {
      take(page, kv_.data() + k_first_ + page * k_strides_.batch,
           kv_.data() + v_first_ + page * v_strides_.batch);
    }
  }

  const Problem& problem() const { return p_; }

  /// The contract, in fp64.
  Row expected(int i, int query, int head) const {
    std::vector<int> keys;
    emulation::Values scores;
    for (int key = 0; key < at(p_.seq_kv, i); ++key) {
      if (may_see(i, query, key)) {
        keys.push_back(key);
        scores.push_back(score(i, query, head, key));
      }
    }
    const emulation::SoftmaxRow softmax = emulation::softmax_of(std::move(scores), sink(head));
    Row row{.o = std::vector<double>(static_cast<std::size_t>(c_.head_dim_v), 0.0),
            .lse = softmax.lse};
    for (std::size_t n = 0; n < keys.size(); ++n) {
      const std::size_t v = v_index(i, keys[n], head / (p_.heads_q / p_.heads_kv));
      for (std::size_t d = 0; d < row.o.size(); ++d) {
        row.o[d] += softmax.p[n] * value_of(kv_[v + d], c_.dtype);
      }
    }
    return row;
  }

  /// O and log-sum-exps of all queries, in the order of sequence, query, head.
  std::vector<float> results() const {
    std::vector<float> all;
    for (int i = 0; i < p_.batch; ++i) {
      for (int query = 0; query < at(p_.seq_q, i); ++query) {
        for (int head = 0; head < p_.heads_q; ++head) {
          for (int d = 0; d < c_.head_dim_v; ++d) {
            all.push_back(static_cast<float>(
                value_of(o_[o_index(i, query, head) + static_cast<std::size_t>(d)], c_.dtype)));
          }
          all.push_back(lse_[lse_index(i, query, head)]);
        }
      }
    }
    return all;
  }

 private:
  static constexpr double kScale = 0.3;
  static constexpr int kPad = 8;      ///< Elements after every row that belong to nobody.
  static constexpr int kMargin = 64;  ///< Elements around every tensor.

  int noted(const WrongValue& wrong) {
    if (first_wrong_.sequence < 0) {
      first_wrong_ = wrong;
    }
    return 1;
  }
  static int at(const std::vector<int>& values, int i) {
    return values[static_cast<std::size_t>(i)];
  }
  int leftpad(int i) const { return p_.leftpad.empty() ? 0 : at(p_.leftpad, i); }

  // Queries.

  void lay_out_queries() {
    q_first_.assign(1, 0);
    for (int i = 0; i < p_.batch; ++i) {
      const int spare = p_.uses_fewer_q ? drawn(random_, 0, 3) : 0;
      const int rows = p_.ragged_q ? std::min(at(p_.seq_q, i) + spare, p_.max_seq_q) : p_.max_seq_q;
      q_first_.push_back(q_first_.back() + rows);
    }
    // Servers capture graphs with room for more tokens than there are.
    const int spare_rows = p_.ragged_q ? 3 : 0;
    q_rows_ = q_first_.back() + spare_rows;
    q_.assign(static_cast<std::size_t>(2 * kMargin + q_rows_ * p_.heads_q * (c_.head_dim + kPad)),
              kPoison);
    o_.assign(static_cast<std::size_t>(2 * kMargin + q_rows_ * p_.heads_q * (c_.head_dim_v + kPad)),
              kPoison);
    lse_.assign(static_cast<std::size_t>(q_rows_ * p_.heads_q + 1), kUnwritten);
  }
  std::size_t row_index(int i, int query, int head, int columns) const {
    return static_cast<std::size_t>(kMargin + ((at(q_first_, i) + query) * p_.heads_q + head) *
                                                  (columns + kPad));
  }
  std::size_t q_index(int i, int query, int head) const {
    return row_index(i, query, head, c_.head_dim);
  }
  std::size_t o_index(int i, int query, int head) const {
    return row_index(i, query, head, c_.head_dim_v);
  }
  std::size_t lse_index(int i, int query, int head) const {
    const int row = at(q_first_, i) + query;
    return static_cast<std::size_t>(p_.lse_by_token ? row * p_.heads_q + head
                                                    : head * q_rows_ + row);
  }
  TensorStrides query_strides(int columns) const {
    const long long row = columns + kPad;
    return {.batch = p_.max_seq_q * p_.heads_q * row, .head = row, .seq = p_.heads_q * row};
  }

  // Keys: containers of `kv_container_rows_` rows of all heads, which are pages or batch items.

  void lay_out_keys() {
    if (c_.has_pages()) {
      lay_out_pages();
    } else if (p_.ragged_k) {
      kv_first_.assign(1, 0);
      for (int i = 0; i < p_.batch; ++i) {
        kv_first_.push_back(kv_first_.back() + leftpad(i) + at(p_.seq_kv, i) +
                            (p_.appends ? 0 : drawn(random_, 0, 2)));
      }
      kv_containers_ = 1;
      kv_container_rows_ = kv_first_.back() + 1;
    } else {
      kv_containers_ = p_.batch + (p_.batch_indices ? 2 : 0);
      kv_container_rows_ = p_.max_seq_kv;
      kv_batch_.resize(static_cast<std::size_t>(kv_containers_));
      std::iota(kv_batch_.begin(), kv_batch_.end(), 0);
      if (p_.batch_indices) {
        std::shuffle(kv_batch_.begin(), kv_batch_.end(), random_);
      }
    }
    const long long k_elements = kv_elements(c_.head_dim);
    const long long v_elements = kv_elements(c_.head_dim_v);
    const bool together = p_.k_and_v_together && c_.head_dim == c_.head_dim_v;
    k_first_ = kMargin;
    v_first_ =
        kMargin + (together ? kv_elements(c_.head_dim) / kv_containers_ : k_elements + kMargin);
    k_strides_ = kv_strides(c_.head_dim, together);
    v_strides_ = kv_strides(c_.head_dim_v, together);
    kv_.assign(static_cast<std::size_t>(3 * kMargin + k_elements + v_elements), kPoison);
  }
  long long kv_elements(int columns) const {
    return static_cast<long long>(kv_containers_) * kv_container_rows_ * p_.heads_kv *
           (columns + kPad);
  }
  TensorStrides kv_strides(int columns, bool together) const {
    const long long row = columns + kPad;
    const long long container = kv_container_rows_ * p_.heads_kv * row * (together ? 2 : 1);
    if (p_.heads_outside_rows) {
      return {.batch = container, .head = kv_container_rows_ * row, .seq = row};
    }
    return {.batch = container, .head = row, .seq = p_.heads_kv * row};
  }
  void lay_out_pages() {
    std::vector<int> counts;
    for (int i = 0; i < p_.batch; ++i) {
      counts.push_back((leftpad(i) + at(p_.seq_kv, i) + p_.page_size - 1) / p_.page_size);
    }
    const int used = std::accumulate(counts.begin(), counts.end(), 0);
    kv_containers_ = used + 3;
    kv_container_rows_ = p_.page_size;
    std::vector<int> ids(static_cast<std::size_t>(kv_containers_));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random_);
    auto next = ids.begin();
    for (const int count : counts) {
      pages_.emplace_back(next, next + count);
      next += count;
    }
    // Entries past a sequence's pages: nothing good comes of reading them.
    const std::vector<int> wild{-1, 2147480000, 1 << 28};
    table_width_ = (p_.max_seq_kv + p_.page_size - 1) / p_.page_size;
    table_width_ = std::max(table_width_, *std::max_element(counts.begin(), counts.end()));
    indptr_.assign(1, 0);
    for (int i = 0; i < p_.batch; ++i) {
      const auto& own = pages_[static_cast<std::size_t>(i)];
      for (int entry = 0; entry < table_width_ + 2; ++entry) {
        table_.push_back(entry < at(counts, i)
                             ? own[static_cast<std::size_t>(entry)]
                             : wild[static_cast<std::size_t>(drawn(random_, 0, 2))]);
      }
      indices_.insert(indices_.end(), own.begin(), own.end());
      indptr_.push_back(indptr_.back() + at(counts, i));
      const int rows = leftpad(i) + at(p_.seq_kv, i);
      last_page_len_.push_back(rows == 0 ? p_.page_size : (rows - 1) % p_.page_size + 1);
    }
    indices_.push_back(-1);
  }
  std::size_t kv_index(int i, int key, int head, const TensorStrides& strides,
                       long long first) const {
    int row = leftpad(i) + key;
    int container = 0;
    if (c_.has_pages()) {
      container = at(pages_[static_cast<std::size_t>(i)], row / p_.page_size);
      row %= p_.page_size;
    } else if (p_.ragged_k) {
      row += at(kv_first_, i);
    } else {
      container = at(kv_batch_, i);
    }
    return static_cast<std::size_t>(first + container * strides.batch + head * strides.head +
                                    row * strides.seq);
  }
  std::size_t k_index(int i, int key, int head) const {
    return kv_index(i, key, head, k_strides_, k_first_);
  }
  std::size_t v_index(int i, int key, int head) const {
    return kv_index(i, key, head, v_strides_, v_first_);
  }

  /// Normal values where something may be read: keys that no query sees stay NaN.
  void fill() {
    std::normal_distribution<float> normal;
    const auto fill_row = [&](std::vector<std::uint16_t>& tensor, std::size_t first, int columns,
                              float scale = 1.0F) {
      for (int d = 0; d < columns; ++d) {
        tensor[first + static_cast<std::size_t>(d)] = bits_of(normal(random_) * scale, c_.dtype);
      }
    };
    for (int i = 0; i < p_.batch; ++i) {
      for (int head = 0; head < p_.heads_q; ++head) {
        for (int query = 0; query < at(p_.seq_q, i); ++query) {
          fill_row(q_, q_index(i, query, head), c_.head_dim);
        }
      }
      for (int key = 0; key < at(p_.seq_kv, i); ++key) {
        bool is_seen = false;
        for (int query = 0; query < at(p_.seq_q, i) && !is_seen; ++query) {
          is_seen = may_see(i, query, key);
        }
        for (int head = 0; is_seen && head < p_.heads_kv; ++head) {
          fill_row(kv_, k_index(i, key, head), c_.head_dim);
          fill_row(kv_, v_index(i, key, head), c_.head_dim_v, p_.value_scale);
        }
      }
    }
    for (int head = 0; head < p_.heads_q; ++head) {
      const float sink = one_in(random_, 6) ? -HUGE_VALF : normal(random_) * p_.largest_sink;
      // As its type has it: 16 bits at most.
      sinks_.push_back(static_cast<float>(value_of(bits_of(sink, short_type()), short_type())));
    }
  }

  // The contract.

  bool may_see(int i, int query, int key) const {
    const int position = query + at(p_.seq_kv, i) - at(p_.seq_q, i);
    if (c_.mask == ServingMask::full) {
      return true;
    }
    if (c_.mask == ServingMask::causal) {
      return key <= position;
    }
    if ((p_.window.left >= 0 && key < position - p_.window.left) ||
        (p_.window.right >= 0 && key > position + p_.window.right)) {
      return false;
    }
    const auto chunk_of = [&](int at_key) {
      return static_cast<int>(std::floor(static_cast<double>(at_key) / p_.window.chunk));
    };
    return p_.window.chunk == 0 || chunk_of(key) == chunk_of(position);
  }

  double score(int i, int query, int head, int key) const {
    const std::size_t q = q_index(i, query, head);
    const std::size_t k = k_index(i, key, head / (p_.heads_q / p_.heads_kv));
    double sum = 0.0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(c_.head_dim); ++d) {
      sum += value_of(q_[q + d], c_.dtype) * value_of(kv_[k + d], c_.dtype);
    }
    return c_.softcap == Softcap::none ? kScale * sum : p_.cap * std::tanh(kScale * sum / p_.cap);
  }

  DType short_type() const { return p_.sink_type == SinkType::fp16 ? DType::fp16 : DType::bf16; }
  double sink(int head) const {
    return p_.sink_type ? static_cast<double>(sinks_[static_cast<std::size_t>(head)]) : -kInfinity;
  }

  // What may differ.

  /// Of a numerator, which is rounded to 16 bits, and of a result, which is again.
  double rounding() const {
    return (c_.dtype == DType::fp16 ? 2e-3 : 1.6e-2) +
           (c_.softcap == Softcap::approximate ? 2e-2 : 0.0);
  }
  /// What keys have of the softmax, all of which is 1; the sink has the rest. 0 where none is seen.
  double share_of_keys(int i, int query, int head, double lse) const {
    bool is_seen = false;
    for (int key = 0; key < at(p_.seq_kv, i) && !is_seen; ++key) {
      is_seen = may_see(i, query, key);
    }
    if (!is_seen) {
      return 0.0;
    }
    // fp64 loses some 1e-12 where lse is in thousands: no less is told apart from nothing.
    constexpr double kLeast = 1e-10;
    return std::max(kLeast, -std::expm1(sink(head) - lse));
  }
  /// Of O. Numerators are rounded before they are multiplied with values near 1, so that the sum is
  /// off by that part of what they add up to, also where it is itself next to nothing: 0 is no
  /// special value. A row that sees no key has no numerators and is exactly 0.
  bool is_near(double actual, double expected, double share) const {
    if (share == 0.0) {
      return actual == 0.0 && expected == 0.0;
    }
    const double subnormal_step = c_.dtype == DType::fp16 ? 0x1p-24 : 0.0;
    return std::abs(actual - expected) <=
           rounding() * (share + std::abs(expected)) + subnormal_step;
  }
  bool is_near_lse(double actual, double expected) const {
    if (std::isinf(expected) || expected == 0.0) {
      return actual == expected;
    }
    return std::abs(actual - expected) <= rounding() * (1.0 + std::abs(expected));
  }

  // What the kernel is told.

  void point_parameters() {
    params_.q = q_.data() + kMargin;
    params_.o = o_.data() + kMargin;
    params_.k = kv_.data() + k_first_;
    params_.v = kv_.data() + v_first_;
    params_.lse = p_.with_lse ? lse_.data() : nullptr;
    params_.q_strides = query_strides(c_.head_dim);
    params_.o_strides = query_strides(c_.head_dim_v);
    params_.k_strides = k_strides_;
    params_.v_strides = v_strides_;
    params_.lse_strides =
        p_.lse_by_token
            ? TensorStrides{.batch = p_.max_seq_q * p_.heads_q, .head = 1, .seq = p_.heads_q}
            : TensorStrides{.batch = p_.max_seq_q, .head = q_rows_, .seq = 1};
    params_.lse_unit = p_.lse_by_token ? 1.0F : static_cast<float>(std::log(2.0));
    params_.batch = p_.batch;
    params_.heads_q = p_.heads_q;
    params_.heads_kv = p_.heads_kv;
    params_.max_seq_q = p_.max_seq_q;
    params_.max_seq_kv = p_.max_seq_kv;
    params_.total_q = q_rows_;
    params_.window = p_.window;
    const double log2_e = 1.0 / std::log(2.0);
    params_.scale_log2 =
        static_cast<float>((c_.softcap == Softcap::none ? kScale : p_.cap) * log2_e);
    params_.softcap_scale = static_cast<float>(kScale / p_.cap);
    params_.section_heads = p_.section_heads;
    params_.item_order = p_.item_order;
    params_.item_overhead = p_.item_overhead;
    params_.least_units = p_.least_units;
    params_.lengths_are_ready = p_.lengths_are_ready;
    point_lengths();
    point_sinks();
  }
  void point_lengths() {
    SequenceLengths& lengths = params_.lengths;
    if (p_.ragged_q) {
      cu_q_ = q_first_;
      lengths.cu_seqlens_q = cu_q_.data();
    }
    if (p_.uses_fewer_q || !p_.ragged_q) {
      used_q_ = p_.seq_q;
      lengths.seqused_q = used_q_.data();
    }
    cu_new_.assign(1, 0);
    for (int i = 0; i < p_.batch; ++i) {
      const int rows = leftpad(i) + at(p_.seq_kv, i);
      const int added = p_.appends ? std::min(drawn(random_, 0, 5), at(p_.seq_kv, i)) : 0;
      used_k_.push_back(rows - added);
      cu_new_.push_back(cu_new_.back() + added);
    }
    const bool from_csr = c_.has_pages() && p_.table_is_csr && !p_.appends;
    if (!from_csr) {
      lengths.seqused_k = used_k_.data();
    }
    if (p_.appends) {
      lengths.cu_seqlens_k_new = cu_new_.data();
    }
    if (!p_.leftpad.empty()) {
      padding_ = p_.leftpad;
      lengths.leftpad_k = padding_.data();
    }
    if (c_.has_pages()) {
      point_pages();
    } else if (p_.ragged_k) {
      cu_k_ = kv_first_;
      lengths.cu_seqlens_k = cu_k_.data();
    } else if (p_.batch_indices) {
      batch_index_ = kv_batch_;
      lengths.kv_batch_index = batch_index_.data();
    }
  }
  void point_pages() {
    params_.pages.page_size = p_.page_size;
    if (p_.table_is_csr) {
      params_.pages.indptr = indptr_.data();
      params_.pages.indices = indices_.data();
      params_.pages.last_page_len = last_page_len_.data();
    } else {
      params_.pages.table = table_.data();
      params_.pages.table_stride = table_width_ + 2;
      params_.pages.pages_per_sequence = table_width_;
    }
  }
  void point_sinks() {
    if (!p_.sink_type) {
      return;
    }
    params_.sink_type = *p_.sink_type;
    for (const float sink : sinks_) {
      short_sinks_.push_back(bits_of(sink, short_type()));
    }
    params_.sinks = *p_.sink_type == SinkType::fp32 ? static_cast<const void*>(sinks_.data())
                                                    : static_cast<const void*>(short_sinks_.data());
  }

  ServingAttentionConfig c_;
  Problem p_;
  Random random_;
  WrongValue first_wrong_;
  ServingAttentionParams params_;
  std::vector<int> q_first_;
  int q_rows_ = 0;
  std::vector<std::uint16_t> q_;
  std::vector<std::uint16_t> o_;
  std::vector<float> lse_;
  int kv_containers_ = 0;
  int kv_container_rows_ = 0;
  std::vector<int> kv_first_;
  std::vector<int> kv_batch_;
  std::vector<std::vector<int>> pages_;
  long long k_first_ = 0;
  long long v_first_ = 0;
  TensorStrides k_strides_;
  TensorStrides v_strides_;
  std::vector<std::uint16_t> kv_;
  std::vector<float> sinks_;
  std::vector<std::uint16_t> short_sinks_;
  // As the device has them.
  std::vector<int> cu_q_;
  std::vector<int> used_q_;
  std::vector<int> used_k_;
  std::vector<int> cu_k_;
  std::vector<int> cu_new_;
  std::vector<int> padding_;
  std::vector<int> batch_index_;
  int table_width_ = 0;
  std::vector<int> table_;
  std::vector<int> indptr_;
  std::vector<int> indices_;
  std::vector<int> last_page_len_;
  std::vector<float> partials_;
  std::vector<unsigned> arrivals_;
};

inline int drawn_length(Random& random, int family, int most) {
  switch (family) {
    case 0:
      return most;
    case 1:
      return drawn(random, 0, most);
    case 2:
      return one_in(random, 6) ? most : drawn(random, 0, std::min(most, 3));
    default:
      return one_in(random, 4) ? 0 : drawn(random, 1, most);
  }
}

/// A problem that a kernel which copies pages so serves, lengths up to some 200 times `size`.
inline Problem drawn_problem(PageCopy page_copy, Random& random, int size = 1) {
  Problem p;
  p.batch = one_in(random, 12) ? 33 : drawn(random, 1, 5);
  p.heads_kv = drawn(random, 1, 2);
  p.heads_q = p.heads_kv * drawn(random, 1, p.batch > 5 ? 2 : 4);
  p.max_seq_q =
      one_in(random, 2) ? drawn(random, 1, 2) : drawn(random, 1, size * (p.batch > 5 ? 9 : 50));
  p.max_seq_kv = drawn(random, 1, size * (p.batch > 5 ? 60 : 200));
  p.ragged_q = one_in(random, 2);
  p.uses_fewer_q = one_in(random, 3);
  p.ragged_k = one_in(random, 2);
  p.batch_indices = one_in(random, 2);
  p.appends = one_in(random, 4);
  p.table_is_csr = one_in(random, 2);
  p.heads_outside_rows = one_in(random, 2);
  p.k_and_v_together = one_in(random, 2);
  const std::vector<int> sizes{1, 2, 3, 7, 16, 19, 32, 64};
  p.page_size = page_copy == PageCopy::run16 ? 16 << drawn(random, 0, 2)
                                             : sizes[static_cast<std::size_t>(drawn(random, 0, 7))];
  p.lse_by_token = one_in(random, 2);
  p.with_lse = !one_in(random, 5);
  if (one_in(random, 2)) {
    p.sink_type = static_cast<SinkType>(drawn(random, 0, 2));
    p.largest_sink = one_in(random, 3) ? 1e4F : 4.0F;
  }
  p.cap = one_in(random, 2) ? 5.0F : 20.0F;
  p.window = {drawn(random, -1, 70), drawn(random, -1, 30),
              one_in(random, 3) ? drawn(random, 1, 80) : 0};
  p.section_heads = drawn(random, 1, 9);
  p.item_order = static_cast<ItemOrder>(drawn(random, 0, 2));
  p.item_overhead = drawn(random, 0, 3);
  p.least_units = one_in(random, 2) ? 1 : drawn(random, 1, 6);
  p.workers = drawn(random, 1, 9);
  p.lengths_are_ready = one_in(random, 3);
  p.copies = one_in(random, 2) ? CopyTime::early : CopyTime::late;
  p.pace = static_cast<Pace>(drawn(random, 0, 2));
  p.ctas = one_in(random, 2) ? CtaOrder::ascending : CtaOrder::descending;
  const int family = drawn(random, 0, 3);
  const bool padded = page_copy == PageCopy::row && one_in(random, 3);
  for (int i = 0; i < p.batch; ++i) {
    p.seq_q.push_back(drawn_length(random, family, p.max_seq_q));
    const int rows = drawn_length(random, family, p.max_seq_kv);
    const int padding = padded ? drawn(random, 0, rows) : 0;
    p.seq_kv.push_back(rows - padding);
    if (padded) {
      p.leftpad.push_back(padding);
    }
  }
  return p;
}

}  // namespace swr::serving_test
