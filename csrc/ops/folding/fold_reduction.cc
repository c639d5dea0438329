// Sums, products and extremes of constants, along dimensions or one element after another.
#include <algorithm>
#include <map>

#include "ops/folding/exact_tensor.h"
#include "ops/folding/fold_node.h"
#include "ops/reduction/node_reduction.h"

namespace ipu::ops {
namespace {

// The operator between two elements that a reduction repeats; "" for what is none.
std::string_view repeated(std::string_view type) {
  static const std::map<std::string_view, std::string_view> table{{"ReduceSum", "Add"},
                                                                  {"ReduceMean", "Add"},
                                                                  {"ReduceProd", "Mul"},
                                                                  {"ReduceMax", "Max"},
                                                                  {"ReduceMin", "Min"}};
  const auto at = table.find(type);
  return at == table.end() ? "" : at->second;
}

// Of each element of `kept` those of `dropped`, combined in order.
template <typename T, typename Apply>
std::vector<T> reduced(const std::vector<T>& x, const Shape& kept, const Strides& kept_strides,
                       const Shape& dropped, const Strides& dropped_strides, Apply apply) {
  const auto count = static_cast<size_t>(element_count(dropped));
  std::vector<T> result;
  for (size_t n = 0; n < static_cast<size_t>(element_count(kept)); ++n) {
    const size_t start = offset_of(n, kept, kept_strides);
    T value = x[start];
    for (size_t i = 1; i < count; ++i)
      value = apply(value, x[start + offset_of(i, dropped, dropped_strides)]);
    result.push_back(value);
  }
  return result;
}

bool fold_cum_sum(NodeImportCall& call) {
  ExactTensor x = ExactTensor::of(*call.constant(0));
  const std::vector<int64_t> axes = call.operand_integers(1, "axis");
  if (x.is_real() || axes.size() != 1) return false;
  const int64_t axis = node_dim(call, axes[0], x.shape.size()), extent = x.shape[static_cast<size_t>(axis)];
  const bool reverse = call.integer("reverse", 0) == 1, exclusive = call.integer("exclusive", 0) == 1;
  const int64_t stride = contiguous_strides(x.shape)[static_cast<size_t>(axis)];
  const auto add = combination_of("Add").integer;
  for (int64_t first = 0; first < std::ssize(x.integers); ++first) {
    if (first / stride % extent != 0) continue;  // each line starts once
    int64_t total = 0;
    for (int64_t i = 0; i < extent; ++i) {
      int64_t& element = x.integers[static_cast<size_t>(first + (reverse ? extent - 1 - i : i) * stride)];
      const int64_t next = add(total, element);
      element = exclusive ? total : next;
      total = next;
    }
  }
  call.set_constant(0, x.to_constant());
  return true;
}

// Places of the first largest or smallest element of each line.
bool fold_place(NodeImportCall& call, bool of_largest) {
  const ExactTensor x = ExactTensor::of(*call.constant(0));
  const auto axis = static_cast<size_t>(axis_of(call, "axis", 0, x.shape.size()));
  const bool keeps = call.integer("keepdims", 1) == 1;
  if (x.is_real() || call.integer("select_last_index", 0) != 0 || x.shape[axis] == 0) return false;
  const Strides strides = contiguous_strides(x.shape);
  ExactTensor result{DType::kI64, x.shape, {}, {}};
  result.shape[axis] = 1;
  const int64_t lines = element_count(result.shape);
  for (int64_t n = 0; n < lines; ++n) {
    const size_t start = offset_of(static_cast<size_t>(n), result.shape, strides);
    const auto at = [&](int64_t i) { return x.integers[start + static_cast<size_t>(i * strides[axis])]; };
    int64_t best = 0;
    for (int64_t i = 1; i < x.shape[axis]; ++i)
      if (of_largest ? at(i) > at(best) : at(i) < at(best)) best = i;
    result.integers.push_back(best);
  }
  if (!keeps) result.shape.erase(result.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  call.set_constant(0, result.to_constant());
  return true;
}

}  // namespace

bool fold_reduction(NodeImportCall& call, std::string_view type) {
  if (type == "CumSum") return call.operand_count() == 2 && fold_cum_sum(call);
  if (type == "ArgMax" || type == "ArgMin") return fold_place(call, type == "ArgMax");
  if (repeated(type).empty()) return false;
  const Combination combination = combination_of(repeated(type));
  const ExactTensor x = ExactTensor::of(*call.constant(0));
  const Reduction reduction = read_reduction(call, x.shape.size(), axes_operand_since(type));
  const Strides strides = contiguous_strides(x.shape);
  ExactTensor result{x.dtype, {}, {}, {}};
  Shape kept, dropped;
  Strides kept_strides, dropped_strides;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const bool drops =
        std::binary_search(reduction.dims.begin(), reduction.dims.end(), static_cast<int64_t>(d));
    (drops ? dropped : kept).push_back(x.shape[d]);
    (drops ? dropped_strides : kept_strides).push_back(strides[d]);
    if (!drops || reduction.keeps) result.shape.push_back(drops ? 1 : x.shape[d]);
  }
  const int64_t count = element_count(dropped);
  if (count == 0) return false;
  if (x.is_real()) {
    result.reals = reduced(x.reals, kept, kept_strides, dropped, dropped_strides, combination.real);
    if (type == "ReduceMean")
      for (double& value : result.reals) value /= static_cast<double>(count);
  } else {
    result.integers = reduced(x.integers, kept, kept_strides, dropped, dropped_strides, combination.integer);
    if (type == "ReduceMean")
      for (int64_t& value : result.integers) value /= count;
  }
  call.set_constant(0, result.to_constant());
  return true;
}

}  // namespace ipu::ops
