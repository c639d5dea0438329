// flat_index: what x[i, :, j] with integer tensors reads its elements by.
#include <fmt/core.h>

#include <limits>

#include "ops/definition/sample_types.h"
#include "ops/definition/work.h"
#include "ops/indexing/index_support.h"

namespace ipu::ops {
namespace {

void flat_index_reference(ReferenceCall& call) {
  const std::vector<int64_t>& sizes = call.attributes.integers("sizes");
  ReferenceTensor& y = call.result();
  for (int64_t i = 0; i < y.size(); ++i) {
    int64_t flat = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const auto index = static_cast<int64_t>(call.operand(static_cast<int>(d)).values[i]);
      if (index < -sizes[d] || index >= sizes[d]) {
        throw Error(
            ErrorCode::kExecution,
            fmt::format("index out of range: index {} (element {} of '{}') is not in [{}, {}).", index, i,
                        sizes.size() == 1 ? "index" : fmt::format("index {}", d), -sizes[d], sizes[d]));
      }
      flat = flat * sizes[d] + (index < 0 ? index + sizes[d] : index);
    }
    y.values[i] = static_cast<double>(flat);
  }
}

const OpRegistration flat_index =
    define_op("flat_index", "indexing")
        .doc(
            "The number, in row-major order, of an element of a tensor of `sizes` from its index in each "
            "dimension. Negative indices count from the end; an index outside its own dimension is an error "
            "of the run.")
        .variadic("indices", bit(DType::kI32))
        .attribute("sizes")
        .result("y")
        .infer([](const InferContext& c) {
          const std::vector<int64_t>& sizes = per_dimension(c, "sizes", c.operands.size(), 1);
          if (sizes.empty()) attribute_error("at least one index is needed");
          int64_t elements = 1;
          for (const int64_t size : sizes) {
            if (__builtin_mul_overflow(elements, size, &elements) ||
                elements > std::numeric_limits<int32_t>::max()) {
              attribute_error(
                  fmt::format("sizes {} have more elements than 32 bits can number", to_string(sizes)));
            }
          }
          for (int i = 1; i < static_cast<int>(c.operands.size()); ++i) require_same_shape(c, 0, i);
          return std::vector<ir::Type>{{DType::kI32, c.operand(0).shape}};
        })
        .gradient_zero()
        .reference(flat_index_reference)
        .work([](const ir::Op& op) {
          std::vector<std::string_view> functions;
          for (int i = 0; i < op.operand_count(); ++i) functions.insert(functions.end(), {"Mul", "Add"});
          return std::vector{pass_of(op, std::move(functions))};
        })
        .samples(
            {{{i32({5})}, {{"sizes", Shape{4}}}, -4, 3},
             {{i32({2, 3}), i32({2, 3})}, {{"sizes", Shape{3, 4}}}, -1, 1, {{0, {-3, 2}}, {1, {-4, 3}}}}});

}  // namespace

ir::Value* index_from_front(ImportCall& call, ir::Value* index, int64_t extent) {
  return call.op("flat_index", {call.cast(index, DType::kI32)}, {{"sizes", Shape{extent}}});
}

}  // namespace ipu::ops
