// SPDX-License-Identifier: MIT
#include "tests/gpu/download.h"

#include "tests/support/float16.h"

#include <cmath>
#include <cstdint>
#include <span>

namespace swr {
namespace {

std::vector<std::uint16_t> download_words(const DeviceBuffer& buffer) {
  std::vector<std::uint16_t> words(buffer.size_bytes() / 2);
  buffer.download(std::as_writable_bytes(std::span(words)));
  return words;
}

}  // namespace

std::vector<double> download(const GuardedTensor& tensor, DType dtype) {
  const std::vector<std::uint16_t> words = download_words(tensor.memory());
  const TensorShape& shape = tensor.shape();
  const TensorStrides& strides = tensor.layout().strides;
  const auto first = static_cast<long long>(tensor.offset_bytes() / 2);
  std::vector<double> values;
  for (int item = 0; item < shape.batch; ++item) {
    for (int head = 0; head < shape.heads; ++head) {
      for (int row = 0; row < shape.seq; ++row) {
        for (int column = 0; column < shape.head_dim; ++column) {
          const long long index =
              first + item * strides.batch + head * strides.head + row * strides.seq + column;
          values.push_back(value_of(words[static_cast<std::size_t>(index)], dtype));
        }
      }
    }
  }
  return values;
}

std::vector<double> download_fp32(const DeviceBuffer& buffer) {
  std::vector<float> values(buffer.size_bytes() / sizeof(float));
  buffer.download(std::as_writable_bytes(std::span(values)));
  return {values.begin(), values.end()};
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / norm);
}

}  // namespace swr
