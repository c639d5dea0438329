#include "ops/indexing/node_slices.h"

#include <fmt/core.h>

namespace ipu::ops {

bool check_places(NodeImportCall& call, int i, const Shape& extents) {
  const ConstantPtr stated = call.constant(i);
  if (stated == nullptr) return false;
  bool from_end = false;
  const std::vector<int64_t> places = integers_of(*stated);
  for (size_t n = 0; n < places.size(); ++n) {
    const int64_t extent = extents[n % extents.size()];
    if (places[n] < -extent || places[n] >= extent)
      throw Error(
          ErrorCode::kTypeMismatch,
          fmt::format("index out of range: {} has index {} at position {} of '{}'; there are {} elements.",
                      call.described(), places[n], n, call.operand_name(i), extent));
    from_end = from_end || places[n] < 0;
  }
  return from_end;
}

Slices named_slices(NodeImportCall& call, ir::Value* x, int operand, size_t batch) {
  require_integers(call, operand, "indices");
  ir::Value* index = call.operand(operand);
  const Shape &from = x->type().shape, &places = index->type().shape;
  const size_t k = places.empty() ? 0 : static_cast<size_t>(places.back());
  const bool shares = batch < places.size() && batch <= from.size() &&
                      std::equal(from.begin(), from.begin() + static_cast<int64_t>(batch), places.begin());
  if (k < 1 || !shares || batch + k > from.size())
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("shape mismatch: {} of {} has indices {} with {} batch dimensions; the last dimension of "
                    "the indices names a place in each of the dimensions behind these.",
                    call.described(), to_string(from), to_string(places), batch));
  const auto last = from.begin() + static_cast<int64_t>(batch + k);
  Slices s{x, nullptr, Shape(places.begin(), places.end() - 1), Shape(last, from.end())};
  const Shape sizes(from.begin(), last);
  check_places(call, operand, Shape(from.begin() + static_cast<int64_t>(batch), last));
  const int64_t count = element_count(s.named);
  std::vector<ir::Value*> each;
  for (size_t d = 0; d < batch; ++d) {
    Shape column(s.named.size(), 1);
    column[d] = s.named[d];
    ir::Value* number = call.op("iota", {}, {{"shape", Shape{s.named[d]}}, {"dtype", DType::kI32}});
    each.push_back(reshaped(call, expanded(call, reshaped(call, number, column), s.named), {count}));
  }
  ir::Value* rows = reshaped(call, call.cast(index, DType::kI32), {count, static_cast<int64_t>(k)});
  for (size_t d = 0; d < k; ++d)
    each.push_back(reshaped(call, sliced(call, rows, 1, static_cast<int64_t>(d), 1), {count}));
  s.index = build_op(call.builder(), "flat_index", each, {{"sizes", sizes}})->result();
  Shape shape = s.rest;
  shape.insert(shape.begin(), element_count(sizes));
  s.x = reshaped(call, x, shape);
  return s;
}

ir::Value* gathered(NodeImportCall& call, const Slices& s) {
  Shape shape = s.named;
  shape.insert(shape.end(), s.rest.begin(), s.rest.end());
  return reshaped(call, call.op("index_select", {s.x, s.index}, {{"dim", int64_t{0}}}), shape);
}

}  // namespace ipu::ops
