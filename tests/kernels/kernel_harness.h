// Runs a kernel of the table on f32 and f16 tensors (given and returned as floats) for tests: lanes in any
// order, scratch and results poisoned with NaN, guards behind every buffer. Tensors are logical row-major
// vectors; layouts and strides are applied here, by loops that share no code with the kernels.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "support/half.h"
#include "tests/kernels/specs.h"

namespace ipu::kernels {

using Values = std::vector<float>;

inline Values random_values(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Values values(static_cast<size_t>(count));
  for (float& v : values) v = normal(generator);
  return values;
}

// Element index in storage of the logical row-major index `i`.
inline int64_t stored_index(const TensorSpec& spec, int64_t i) {
  std::vector<int64_t> at(spec.shape.size());
  for (size_t d = spec.shape.size(); d-- > 0;) {
    at[d] = i % spec.shape[d];
    i /= spec.shape[d];
  }
  if (spec.layout.is_blocked()) {
    const int64_t rows = spec.shape[0], width = spec.layout.block();
    return (at[1] / width * rows + at[0]) * width + at[1] % width;
  }
  if (spec.layout.is_channels_last()) {
    int64_t index = at[0];
    for (size_t d = 2; d < at.size(); ++d) index = index * spec.shape[d] + at[d];
    return index * spec.shape[1] + at[1];
  }
  int64_t index = 0;
  for (size_t d = 0; d < at.size(); ++d) index += at[d] * spec.strides[d];
  return index;
}

inline int64_t stored_elements(const TensorSpec& spec) {
  if (spec.layout != Layout::kPlain || element_count(spec.shape) == 0)
    return stored_bytes(spec.dtype, spec.shape, spec.layout) / size_in_bytes(spec.dtype);
  int64_t last = 0;
  for (size_t d = 0; d < spec.shape.size(); ++d) last += (spec.shape[d] - 1) * spec.strides[d];
  return last + 1;
}

class Buffer {
 public:
  explicit Buffer(int64_t elements, float fill = std::numeric_limits<float>::quiet_NaN())
      : elements_(elements), values_(static_cast<size_t>(elements + 2 * kGuard), fill) {
    for (int64_t g = 0; g < kGuard; ++g) guard(g) = guard(kGuard + elements_ + g) = kMark;
  }
  float* data() { return values_.data() + kGuard; }
  bool is_intact() const {
    for (int64_t g = 0; g < kGuard; ++g)
      if (values_[static_cast<size_t>(g)] != kMark ||
          values_[static_cast<size_t>(kGuard + elements_ + g)] != kMark)
        return false;
    return true;
  }
  const Values& all() const { return values_; }
  Values& all() { return values_; }
  static constexpr int64_t kGuardElements = 32;

 private:
  static constexpr int64_t kGuard = kGuardElements;
  static constexpr float kMark = 12344.0f;  // an f16 too
  float& guard(int64_t i) { return values_[static_cast<size_t>(i)]; }
  int64_t elements_;
  Values values_;
};

// The stored bits of `values`, guards included, and back.
inline std::vector<uint16_t> halves(const Values& values) {
  std::vector<uint16_t> bits(values.size());
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = float_to_half(values[i]);
  return bits;
}
inline TensorSpec as_half(TensorSpec spec) {
  spec.dtype = DType::kF16;
  return spec;
}
inline Values rounded(Values values) {
  for (float& v : values) v = half_to_float(float_to_half(v));
  return values;
}

struct KernelRun {
  bool accepted = false;
  int lanes = 0;
  std::vector<Values> results;  // logical, row-major
  std::vector<Values> stored;   // everything, guards included
};

// An empty operand vector with an empty shape passes a null pointer (absent).
inline KernelRun run_kernel(const std::string& id, const std::vector<TensorSpec>& operand_specs,
                            const std::vector<Values>& operands, const std::vector<TensorSpec>& result_specs,
                            const Attributes& attributes) {
  KernelRun out;
  const KernelDef* def = find_kernel(id);
  EXPECT_NE(def, nullptr) << id;
  if (def == nullptr) return out;
  auto kernel = def->prepare({operand_specs, result_specs, attributes});
  if (kernel == nullptr) return out;
  out.accepted = true;
  out.lanes = kernel->lanes();
  std::vector<Buffer> buffers;
  std::vector<std::vector<uint16_t>> half_buffers;  // what the kernel sees of the f16 ones
  std::vector<std::byte*> in, res;
  buffers.reserve(operand_specs.size() + result_specs.size());
  half_buffers.reserve(operand_specs.size() + result_specs.size());
  auto memory = [&](Buffer& buffer, const TensorSpec& spec) {
    half_buffers.push_back(spec.dtype == DType::kF16 ? halves(buffer.all()) : std::vector<uint16_t>());
    return spec.dtype == DType::kF16
               ? reinterpret_cast<std::byte*>(half_buffers.back().data() + Buffer::kGuardElements)
               : reinterpret_cast<std::byte*>(buffer.data());
  };
  for (size_t i = 0; i < operand_specs.size(); ++i) {
    // Padding holds zeros by contract; gaps between strided rows hold NaN, which must not be read.
    const bool padded = operand_specs[i].layout.is_blocked();
    buffers.emplace_back(stored_elements(operand_specs[i]),
                         padded ? 0.0f : std::numeric_limits<float>::quiet_NaN());
    for (size_t e = 0; e < operands[i].size(); ++e)
      buffers.back().data()[stored_index(operand_specs[i], static_cast<int64_t>(e))] = operands[i][e];
    const bool absent = operands[i].empty() && operand_specs[i].shape.empty();
    std::byte* const at = memory(buffers.back(), operand_specs[i]);
    in.push_back(absent ? nullptr : at);
  }
  for (const TensorSpec& spec : result_specs) {
    buffers.emplace_back(stored_elements(spec));
    res.push_back(memory(buffers.back(), spec));
  }
  const size_t scratch_bytes = static_cast<size_t>(kernel->scratch_bytes());
  for (int lane = kernel->lanes(); lane-- > 0;) {
    auto* scratch = static_cast<std::byte*>(std::aligned_alloc(64, (scratch_bytes + 128) / 64 * 64));
    std::memset(scratch, 0xff, scratch_bytes + 64);
    kernel->run({in.data(), res.data(), scratch}, lane);
    for (size_t g = scratch_bytes; g < scratch_bytes + 64; ++g)
      EXPECT_EQ(scratch[g], std::byte{0xff}) << "scratch overrun";
    std::free(scratch);
  }
  for (size_t i = 0; i < buffers.size(); ++i)
    for (size_t e = 0; e < half_buffers[i].size(); ++e)
      buffers[i].all()[e] = half_to_float(half_buffers[i][e]);
  for (Buffer& buffer : buffers) EXPECT_TRUE(buffer.is_intact()) << "buffer overrun";
  for (size_t r = 0; r < result_specs.size(); ++r) {
    Buffer& buffer = buffers[operand_specs.size() + r];
    Values logical(static_cast<size_t>(element_count(result_specs[r].shape)));
    for (size_t e = 0; e < logical.size(); ++e)
      logical[e] = buffer.data()[stored_index(result_specs[r], static_cast<int64_t>(e))];
    out.results.push_back(std::move(logical));
    out.stored.push_back(buffer.all());
  }
  return out;
}

// ‖actual − expected‖ <= bound · ‖expected‖ (2-norms), and nothing is NaN.
inline void expect_close(const Values& actual, const std::vector<double>& expected, double bound,
                         const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double error = 0, scale = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_FALSE(std::isnan(actual[i])) << what << " element " << i;
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    scale += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(error), bound * std::sqrt(scale) + 1e-30) << what;
}

inline bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace ipu::kernels
