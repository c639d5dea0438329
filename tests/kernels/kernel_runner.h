// Runs a kernel of the table on tensors made in a test: guarded results, all lanes in any order, either
// instruction set.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "kernels/kernel_table.h"
#include "support/half.h"

namespace ipu::kernels::kernel_tests {

// A tensor with memory of its own; values go in and out as f64 in logical row-major order.
struct Tensor {
  TensorSpec spec;
  std::vector<std::byte> bytes;

  static Tensor plain(DType dtype, Shape shape) { return with(TensorSpec::plain(dtype, std::move(shape))); }
  static Tensor with(TensorSpec spec) {
    Tensor t{std::move(spec), {}};
    t.bytes.resize(static_cast<size_t>(t.span_elements() * size_in_bytes(t.spec.dtype)));
    return t;
  }
  static Tensor of(DType dtype, Shape shape, const std::vector<double>& values) {
    Tensor t = plain(dtype, std::move(shape));
    t.fill(values);
    return t;
  }

  // Elements of memory touched; strides are not negative here.
  int64_t span_elements() const {
    if (spec.layout != Layout::kPlain) return spec.stored_bytes() / size_in_bytes(spec.dtype);
    int64_t last = 0;
    for (size_t d = 0; d < spec.shape.size(); ++d) {
      if (spec.shape[d] == 0) return 0;
      last += (spec.shape[d] - 1) * spec.strides[d];
    }
    return last + 1;
  }
  int64_t elements() const { return element_count(spec.shape); }

  // Element offset in memory of logical index `flat`.
  int64_t offset(int64_t flat) const {
    std::vector<int64_t> index(spec.shape.size());
    for (size_t d = spec.shape.size(); d-- > 0;) {
      index[d] = flat % spec.shape[d];
      flat /= spec.shape[d];
    }
    if (spec.layout.is_blocked()) {
      const int64_t width = spec.layout.block();
      return index[1] / width * width * spec.shape[0] + index[0] * width + index[1] % width;
    }
    if (spec.layout.is_channels_last() && spec.shape.size() > 2) {
      int64_t at = index[0];
      for (size_t d = 2; d < index.size(); ++d) at = at * spec.shape[d] + index[d];
      return at * spec.shape[1] + index[1];
    }
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d)
      at += index[d] * (spec.layout == Layout::kPlain ? spec.strides[d] : contiguous_strides(spec.shape)[d]);
    return at;
  }

  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes.data());
  }

  double at(int64_t flat) const { return read(offset(flat)); }
  double read(int64_t i) const {
    switch (spec.dtype) {
      case DType::kF32:
        return as<float>()[i];
      case DType::kF16:
        return half_to_float(as<uint16_t>()[i]);
      case DType::kI32:
        return as<int32_t>()[i];
      case DType::kU32:
        return as<uint32_t>()[i];
      case DType::kI16:
        return as<int16_t>()[i];
      case DType::kU16:
        return as<uint16_t>()[i];
      case DType::kI8:
        return as<int8_t>()[i];
      default:
        return as<uint8_t>()[i];
    }
  }
  void write(int64_t i, double value) {
    switch (spec.dtype) {
      case DType::kF32:
        as<float>()[i] = static_cast<float>(value);
        return;
      case DType::kF16:
        as<uint16_t>()[i] = double_to_half(value);
        return;
      case DType::kI32:
        as<int32_t>()[i] = static_cast<int32_t>(value);
        return;
      case DType::kU32:
        as<uint32_t>()[i] = static_cast<uint32_t>(value);
        return;
      case DType::kI16:
        as<int16_t>()[i] = static_cast<int16_t>(value);
        return;
      case DType::kU16:
        as<uint16_t>()[i] = static_cast<uint16_t>(value);
        return;
      case DType::kI8:
        as<int8_t>()[i] = static_cast<int8_t>(value);
        return;
      default:
        as<uint8_t>()[i] = static_cast<uint8_t>(value);
        return;
    }
  }
  void set(int64_t flat, double value) { write(offset(flat), value); }
  std::vector<double> values() const {
    std::vector<double> all(static_cast<size_t>(elements()));
    for (int64_t i = 0; i < elements(); ++i) all[static_cast<size_t>(i)] = at(i);
    return all;
  }
  void fill(const std::vector<double>& values) {
    for (int64_t i = 0; i < elements(); ++i) set(i, values[static_cast<size_t>(i)]);
  }
  // Uniform values; integers are whole, booleans 0 or 1.
  Tensor& randomize(std::mt19937& random, double low = -1.0, double high = 1.0) {
    std::uniform_real_distribution<double> uniform(low, high);
    for (int64_t i = 0; i < elements(); ++i) {
      double value = uniform(random);
      if (spec.dtype == DType::kBool)
        value = value > (low + high) / 2;
      else if (!is_floating_point(spec.dtype))
        value = std::floor(value);
      set(i, value);
    }
    return *this;
  }
};

// A random permutation of memory order, gaps, or repeats, for strided operands.
inline TensorSpec permuted_spec(DType dtype, Shape shape, std::mt19937& random, bool gaps = false) {
  std::vector<size_t> order(shape.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::shuffle(order.begin(), order.end(), random);
  Strides strides(shape.size());
  int64_t step = 1;
  for (size_t d : order) {
    strides[d] = step;
    step *= std::max<int64_t>(shape[d], 1) + (gaps ? static_cast<int64_t>(random() % 3) : 0);
  }
  return {dtype, std::move(shape), std::move(strides), Layout::kPlain};
}

inline std::unique_ptr<PreparedKernel> prepare(std::string_view id,
                                               const std::vector<const Tensor*>& operands,
                                               const std::vector<const Tensor*>& results,
                                               const Attributes& attributes) {
  const KernelDef* def = find_kernel(id);
  if (def == nullptr) {
    ADD_FAILURE() << "no kernel '" << id << "'";
    return nullptr;
  }
  std::vector<TensorSpec> operand_specs, result_specs;
  uint64_t absent = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    operand_specs.push_back(operands[i] == nullptr ? TensorSpec{} : operands[i]->spec);
    if (operands[i] == nullptr) absent |= uint64_t{1} << i;
  }
  for (const Tensor* t : results) result_specs.push_back(t->spec);
  return def->prepare({operand_specs, result_specs, attributes, absent});
}

// Runs all lanes, last one first when `reversed`. A nullptr operand is absent.
inline void run(const PreparedKernel& kernel, const std::vector<const Tensor*>& operands,
                const std::vector<Tensor*>& results, KernelFault* fault = nullptr, bool reversed = false) {
  constexpr size_t kGuard = 64;
  std::vector<std::byte*> in, out;
  for (const Tensor* t : operands)
    in.push_back(t == nullptr ? nullptr : const_cast<std::byte*>(t->bytes.data()));
  for (Tensor* t : results) out.push_back(t->bytes.data());
  size_t bytes = static_cast<size_t>(kernel.scratch_bytes());
  auto* scratch = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64 + kGuard));
  for (int i = 0; i < kernel.lanes(); ++i) {
    std::memset(scratch, 0x7f, bytes);  // NaN-like garbage: nothing may be read before it is written
    std::memset(scratch + bytes, 0x5a, kGuard);
    kernel.run({in.data(), out.data(), scratch, fault}, reversed ? kernel.lanes() - 1 - i : i);
    for (size_t k = 0; k < kGuard; ++k) ASSERT_EQ(scratch[bytes + k], std::byte{0x5a}) << "scratch overrun";
  }
  std::free(scratch);
}

inline void run(std::string_view id, const std::vector<const Tensor*>& operands,
                const std::vector<Tensor*>& results, const Attributes& attributes = {},
                KernelFault* fault = nullptr) {
  std::vector<const Tensor*> result_list(results.begin(), results.end());
  auto kernel = prepare(id, operands, result_list, attributes);
  ASSERT_NE(kernel, nullptr) << "kernel '" << id << "' refuses these operands";
  run(*kernel, operands, results, fault);
}

// Calls `body` once per instruction set of this host that must give equal bits, and restores the choice.
inline void for_each_vector_isa(const std::function<void(Isa)>& body) {
  Isa before = active_isa();
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512})
    if (isa <= instruction_set()) {
      set_active_isa(isa);
      body(isa);
    }
  set_active_isa(before);
}

// Distance in units in the last place of f32 between `got` and the exact `want`; 0 when both are NaN.
inline double ulp_error(float got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0.0 : INFINITY;
  float nearest = static_cast<float>(want);
  if (std::isinf(nearest) || std::isinf(got)) return nearest == got ? 0.0 : INFINITY;
  int exponent = std::max(std::ilogb(std::max(std::fabs(nearest), 1e-45f)), -126);
  return std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

}  // namespace ipu::kernels::kernel_tests
