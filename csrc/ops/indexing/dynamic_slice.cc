// poptorch.dynamic_slice and dynamic_update: places along one dimension that are known when the program runs.
// Places beyond the end wrap around, so they are indices like all others: a gather and a replacement of slices.
#include <fmt/core.h>

#include "ops/indexing/index_support.h"

namespace ipu::ops {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kTypeMismatch, "slice that cannot be: " + what);
}

int64_t dimension_of(AtenImportCall& call, const ir::Value* x) {
  if (x->type().shape.empty()) refuse("the tensor has no dimensions");
  return normalize_dim(call.integer("dim"), x->type().shape.size());
}

// start, start + step, ... below start + size, around the end of a dimension of `length`.
ir::Value* places(AtenImportCall& call, int64_t size, int64_t step, int64_t length) {
  ir::Value* start = call.cast(call.tensor("start"), DType::kI32);
  if (start->type().elements() != 1)
    refuse(fmt::format("start has {} elements; it must have one", start->type().elements()));
  ir::Value* from_start = call.op("iota", {},
                                  {{"shape", Shape{(size + step - 1) / step}},
                                   {"dim", int64_t{0}},
                                   {"dtype", DType::kI32},
                                   {"start", 0.0},
                                   {"step", static_cast<double>(step)}});
  // A start near the end of the integers does not overflow once it is inside.
  ir::Value* extent = call.builder().scalar(DType::kI32, static_cast<double>(length));
  ir::Value* inside = call.op("remainder", {reshaped(call, start, {1}), extent});
  return call.op("remainder", {call.op("add", {inside, from_start}), extent});
}

void import_dynamic_slice(AtenImportCall& call) {
  ir::Value* x = call.tensor("x");
  const int64_t dim = dimension_of(call, x), length = x->type().shape[static_cast<size_t>(dim)];
  const int64_t size = call.integer("size"), step = call.integer("step");
  ir::Value* index = places(call, size, step, length);
  call.set_result(0, call.op("index_select", {x, index}, {{"dim", dim}}));
}

void import_dynamic_update(AtenImportCall& call) {
  ir::Value *x = call.tensor("input"), *source = call.tensor("src");
  const int64_t dim = dimension_of(call, x), length = x->type().shape[static_cast<size_t>(dim)];
  ir::Value* index = places(call, call.integer("size"), 1, length);
  call.set_result(0, call.op("index_copy", {x, index, source}, {{"dim", dim}}));
}

struct DynamicSliceRegistrations {
  DynamicSliceRegistrations() {
    register_aten_importer("poptorch::dynamic_slice", import_dynamic_slice);
    register_aten_importer("poptorch::dynamic_update", import_dynamic_update);
  }
};
const DynamicSliceRegistrations dynamic_slice_registrations;

}  // namespace
}  // namespace ipu::ops
