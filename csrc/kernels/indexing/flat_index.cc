// Kernel "flat_index" (an index per dimension) {sizes}: the number of an element in row-major order. Each
// index is checked against the size of its own dimension, before it becomes part of a number that may be in
// range although the index was not.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/iteration.h"

namespace ipu::kernels {
namespace {

class FlatIndexKernel final : public PreparedKernel {
 public:
  FlatIndexKernel(std::vector<int64_t> sizes, int64_t count)
      : sizes_(std::move(sizes)), count_(count), lanes_(std::max(1, lanes_for_elements(count))) {}
  int lanes() const override { return lanes_; }

  void run(const KernelCall& call, int lane) const override {
    auto* result = reinterpret_cast<int32_t*>(call.results[0]);
    const int64_t first = count_ * lane / lanes_, last = count_ * (lane + 1) / lanes_;
    for (size_t d = 0; d < sizes_.size(); ++d) {
      const auto* index = reinterpret_cast<const int32_t*>(call.operands[d]);
      const auto size = static_cast<int32_t>(sizes_[d]);
      if (!append(index, result, first, last, size, d == 0)) report(call, d, first, last);
    }
  }

 private:
  // result = result * size + index; whether all indices are in range. One that is not counts as 0.
  static bool append(const int32_t* index, int32_t* result, int64_t first, int64_t last, int32_t size,
                     bool is_first) {
    uint32_t outside = 0;
    for (int64_t i = first; i < last; ++i) {
      const int32_t given = index[i];
      const int32_t at = given < 0 ? given + size : given;
      const bool is_inside = static_cast<uint32_t>(at) < static_cast<uint32_t>(size);
      outside |= static_cast<uint32_t>(!is_inside);
      const uint32_t row = is_first ? 0 : static_cast<uint32_t>(result[i]) * static_cast<uint32_t>(size);
      result[i] = static_cast<int32_t>(row + static_cast<uint32_t>(is_inside ? at : 0));
    }
    return outside == 0;
  }

  void report(const KernelCall& call, size_t d, int64_t first, int64_t last) const {
    if (call.fault == nullptr) return;
    const auto* index = reinterpret_cast<const int32_t*>(call.operands[d]);
    const std::string name = sizes_.size() == 1 ? "index" : fmt::format("index {}", d);
    for (int64_t i = first; i < last; ++i) {
      const int32_t given = index[i];
      if (given >= -sizes_[d] && given < sizes_[d]) continue;
      return call.fault->index_out_of_range(name, i, given, sizes_[d], -sizes_[d]);
    }
  }

  std::vector<int64_t> sizes_;
  int64_t count_;
  int lanes_;
};

bool is_index_of(const TensorSpec& spec, const TensorSpec& result) {
  return spec.dtype == DType::kI32 && spec.layout.is_plain() && spec.is_contiguous() &&
         spec.shape == result.shape;
}

std::unique_ptr<PreparedKernel> prepare_flat_index(const KernelRequest& request) {
  const TensorSpec& y = request.results[0];
  const std::vector<int64_t>& sizes = request.attributes.integers("sizes");
  if (!is_index_of(y, y) || sizes.size() != request.operands.size()) return nullptr;
  for (const TensorSpec& index : request.operands)
    if (!is_index_of(index, y)) return nullptr;
  return std::make_unique<FlatIndexKernel>(sizes, element_count(y.shape));
}

Footprint footprint_of_flat_index(const KernelRequest& request) {
  const std::vector<int64_t>& sizes = integers_of(request, "sizes");
  require(!sizes.empty(), "has no sizes");
  require_counts(request, sizes.size(), 1);
  require_sound(request);
  Checked elements = 1;
  for (const int64_t size : sizes) {
    require(size >= 1, "has a size below 1");
    elements *= size;
  }
  require(elements <= INT32_MAX, "numbers more elements than an index can");
  for (const TensorSpec& index : request.operands)
    require(is_index_of(index, request.results[0]), "has an index of another type or shape than its result");
  require(is_index_of(request.results[0], request.results[0]), "has a result that is no index");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("flat_index", prepare_flat_index, footprint_of_flat_index);

}  // namespace
}  // namespace ipu::kernels
