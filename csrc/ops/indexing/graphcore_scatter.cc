// Importer of ai.graphcore's ScatterReduce: out[... index[i] ...] combined with src[i] along one axis, in groups or not.
//
// Gradients of Max, Min and Mul are PopART's, not those of the ops: every source that equals the result gets the whole
// gradient. So the result is followed by straight_through of a sum of src and initial with factors that are what the
// gradients are to be.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

// Everything of one shape but along `axis`; index and source of equal shape.
struct Scattering {
  ir::Value *source, *index, *initial;  // initial nullptr: none
  Shape result;
  int64_t axis;
  std::string reduction;
};

// Dimensions that the index has: a vector (behind the group) stands along the axis, others get 1s behind.
Shape aligned(const Shape& index, size_t rank, int64_t axis, bool is_grouped) {
  Shape shape(rank, 1);
  const size_t front = is_grouped ? 1 : 0;
  if (index.size() == front + 1 && rank > index.size()) {
    if (is_grouped) shape[0] = index[0];
    shape[static_cast<size_t>(axis)] = index[front];
  } else {
    std::copy(index.begin(), index.end(), shape.begin());
  }
  return shape;
}

// The index and the part of the source it names, of one shape.
void align(NodeImportCall& call, Scattering& s, bool is_grouped) {
  const Shape source = s.source->type().shape, index = s.index->type().shape;
  if (index.size() > source.size() || (is_grouped && index.size() < 2))
    node_shape_error(call,
                     fmt::format("of src {} and index {}, which has too {} dimensions", to_string(source),
                                 to_string(index), index.size() > source.size() ? "many" : "few"));
  const Shape wide = aligned(index, source.size(), s.axis, is_grouped);
  for (size_t d = 0; d < wide.size(); ++d)
    if (wide[d] > source[d])
      node_shape_error(
          call, fmt::format("of src {} and index {}, which is larger", to_string(source), to_string(index)));
  s.index = reshaped(call, s.index, wide);
  if (wide == source) return;
  if (flag_of(call, "enable_index_broadcast", true)) {
    Shape vector(source.size(), 1);
    vector[static_cast<size_t>(s.axis)] = source[static_cast<size_t>(s.axis)];
    Shape in_groups = vector;
    if (is_grouped) in_groups[0] = source[0];
    if (wide != vector && wide != in_groups)
      node_shape_error(
          call, fmt::format("of src {} and index {}: with enable_index_broadcast=1 the index has the shape "
                            "of src, or is a vector along axis {}",
                            to_string(source), to_string(index), s.axis));
    s.index = expanded(call, s.index, source);
    return;
  }
  ir::Value* part = no_device_gradient(call, s.source);
  s.source = call.op("slice", {part},
                     {{"starts", Shape(wide.size(), 0)}, {"sizes", wide}, {"steps", Shape(wide.size(), 1)}});
  if (s.initial != nullptr) s.initial = no_device_gradient(call, s.initial);
}

// Groups become part of the axis, which comes first: index counts on from group to group.
struct Order {
  std::vector<int64_t> perm, back;
};
Order group_order(size_t rank, int64_t axis) {
  Order order{{0, axis}, std::vector<int64_t>(rank)};
  for (int64_t d = 1; d < static_cast<int64_t>(rank); ++d)
    if (d != axis) order.perm.push_back(d);
  for (size_t i = 0; i < rank; ++i) order.back[order.perm[i]] = static_cast<int64_t>(i);
  return order;
}
ir::Value* merged(NodeImportCall& call, ir::Value* x, const Order& order) {
  x = transposed(call, x, order.perm);
  Shape shape(x->type().shape.begin() + 1, x->type().shape.end());
  shape[0] *= x->type().shape[0];
  return reshaped(call, x, shape);
}

// What changes nothing when it is combined.
double neutral(DType dtype, const std::string& reduction) {
  if (reduction == "multiply") return 1.0;
  if (reduction != "max" && reduction != "min") return 0.0;
  const bool is_max = reduction == "max";
  if (is_floating_point(dtype)) return (is_max ? -1 : 1) * std::numeric_limits<double>::infinity();
  const int bits = static_cast<int>(size_in_bytes(dtype)) * 8;
  const bool is_signed = dtype == DType::kI32 || dtype == DType::kI16 || dtype == DType::kI8;
  if (is_max) return is_signed ? -std::ldexp(1.0, bits - 1) : 0.0;
  return std::ldexp(1.0, is_signed ? bits - 1 : bits) - 1.0;
}

ir::Value* combined(NodeImportCall& call, ir::Value* start, const Scattering& s) {
  if (s.reduction == "sum") return call.op("scatter_add", {start, s.index, s.source}, {{"dim", s.axis}});
  return call.op("scatter", {start, s.index, s.source}, {{"dim", s.axis}, {"mode", s.reduction}});
}

// Where something is scattered to, as 1 and 0.
ir::Value* targets(NodeImportCall& call, const Scattering& s) {
  ir::Value* ones = call.builder().splat({DType::kI32, s.index->type().shape}, 1.0);
  ir::Value* zeros = call.builder().splat({DType::kI32, s.result}, 0.0);
  ir::Value* counts =
      call.op("scatter", {zeros, s.index, ones}, {{"dim", s.axis}, {"mode", std::string("assign")}});
  return call.op("equal", {counts, number_like(call, counts, 1.0)});
}

// A value whose gradient is the one wanted: factor * src, scattered, plus factor * initial.
ir::Value* followed(NodeImportCall& call, const Scattering& s, ir::Value* y) {
  ir::Value *source = call.op("detach", {s.source}),
            *there = call.op("gather", {y, s.index}, {{"dim", s.axis}});
  const auto factor = [&](ir::Value* x, ir::Value* result) {
    if (s.reduction == "multiply") return call.op("div", {result, x});
    return call.cast(call.op("equal", {x, result}), x->type().dtype);
  };
  Scattering sum = s;
  sum.reduction = "sum";
  sum.source = call.op("mul", {s.source, factor(source, there)});
  ir::Value* start = call.builder().splat({y->type().dtype, s.result}, 0.0);
  if (s.initial != nullptr) start = call.op("mul", {s.initial, factor(call.op("detach", {s.initial}), y)});
  return combined(call, start, sum);
}

ir::Value* reduced(NodeImportCall& call, const Scattering& s) {
  const DType dtype = s.source->type().dtype;
  ir::Value* start = s.initial;
  if (start == nullptr) start = call.builder().splat({dtype, s.result}, neutral(dtype, s.reduction));
  if (s.reduction == "sum") return combined(call, start, s);
  // Every source of a replaced element gets its gradient, the ones that were overwritten as well.
  const bool follows = is_floating_point(dtype) && call.is_training();
  Scattering fixed = s;
  if (follows) {
    fixed.source = call.op("detach", {s.source});
    start = call.op("detach", {start});
  }
  ir::Value* y = combined(call, start, fixed);
  if (s.initial == nullptr && (s.reduction == "max" || s.reduction == "min"))
    y = call.op("where", {targets(call, s), y, number_like(call, y, 0.0)});
  if (!follows) return y;
  if (s.reduction != "assign") return call.op("straight_through", {followed(call, s, y), y});
  Scattering sum = s;
  sum.reduction = "sum";
  ir::Value* kept = call.builder().splat({dtype, s.result}, 0.0);
  if (s.initial != nullptr)
    kept = call.op("where", {targets(call, s), number_like(call, s.initial, 0.0), s.initial});
  return call.op("straight_through", {combined(call, kept, sum), y});
}

std::string reduction_of(NodeImportCall& call) {
  std::string word = call.text("reduction", "sum");
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (word == "none") return "assign";
  if (word == "mul") return "multiply";
  if (word != "sum" && word != "max" && word != "min")
    node_attribute_error(call, fmt::format("has reduction \"{}\"; it is sum, max, min, mul or none", word));
  return word;
}

void import_scatter_reduce(NodeImportCall& call) {
  require_integer(call, 1);
  const ir::Type source = call.operand(0)->type();
  if (source.shape.empty()) node_shape_error(call, "of a tensor without dimensions");
  const int64_t size = call.integer("axis_size"), groups = call.integer("group_size", 1);
  if (size < 1) node_attribute_error(call, fmt::format("has axis_size {}; it is at least 1", size));
  if (groups < 1) node_attribute_error(call, fmt::format("has group_size {}; it is at least 1", groups));
  flag_of(call, "enable_index_broadcast", true);
  Scattering s{call.operand(0), call.cast(call.operand(1), DType::kI32), nullptr, {}, 0, reduction_of(call)};
  s.axis = axis_of(call, "axis", -1, source.shape.size());
  const bool is_grouped = groups > 1;
  const Shape& index = call.operand(1)->type().shape;
  if (is_grouped && s.axis == 0)
    node_attribute_error(call, fmt::format("has axis 0 with {} groups, which axis 0 is", groups));
  if (is_grouped && (source.shape[0] != groups || index.empty() || index[0] != groups))
    node_shape_error(call, fmt::format("of src {} and index {} with {} groups, which dimension 0 is",
                                       to_string(source.shape), to_string(index), groups));
  if (call.has_operand(2)) {
    require_equal_dtypes(call, 0, 2);
    s.initial = call.operand(2);
  }
  align(call, s, is_grouped);
  s.result = s.source->type().shape;
  s.result[static_cast<size_t>(s.axis)] = size;
  if (s.initial != nullptr) {
    const Shape& shape = s.initial->type().shape;
    bool fits = shape.size() == s.result.size() && shape[static_cast<size_t>(s.axis)] == size;
    for (size_t d = 0; fits && d < shape.size(); ++d)
      fits = static_cast<int64_t>(d) == s.axis || shape[d] >= s.result[d];
    if (!fits)
      node_shape_error(call, fmt::format("has an initial value of {}, where {} is scattered into",
                                         to_string(shape), to_string(s.result)));
    s.result = shape;
  }
  if (!is_grouped) return call.set_result(0, reduced(call, s));
  const Order order = group_order(source.shape.size(), s.axis);
  Shape split;
  for (const int64_t d : order.perm) split.push_back(s.result[static_cast<size_t>(d)]);
  Shape first(source.shape.size(), 1);
  first[0] = groups;
  ir::Value* starts = call.op(
      "iota", {},
      {{"shape", first}, {"dim", int64_t{0}}, {"dtype", DType::kI32}, {"step", static_cast<double>(size)}});
  s.index = merged(call, call.op("add", {s.index, starts}), order);
  s.source = merged(call, s.source, order);
  if (s.initial != nullptr) s.initial = merged(call, s.initial, order);
  s.axis = 0;
  s.result = Shape(split.begin() + 1, split.end());
  s.result[0] *= groups;
  call.set_result(0, transposed(call, reshaped(call, reduced(call, s), split), order.back));
}

struct GraphcoreScatterRegistrations {
  GraphcoreScatterRegistrations() {
    register_graphcore_importer(
        {"ScatterReduce", "groupedscatterreduce", "src:F+WHOLE index:WHOLE initial?:F+WHOLE", "y:F+WHOLE",
         "yes",
         "axis_size:int, axis:int=-1, reduction:scatter reduction=Sum, group_size:int=1, enable_index_broadcast:flag=1",
         "[source, index] and initial values: scatters in each group of the first dimension."},
        import_scatter_reduce);
    describe_graphcore_operator(
        {"ScatterReduce", "scatterreduce", "src:F+WHOLE index:WHOLE initial?:F+WHOLE", "y:F+WHOLE", "yes",
         "axis_size:int, axis:int=-1, reduction:scatter reduction=Sum, enable_index_broadcast:flag=1",
         "[source, index] and initial values: out[index[i]] op= source[i] along an axis."});
  }
};
const GraphcoreScatterRegistrations graphcore_scatter_registrations;

}  // namespace
}  // namespace ipu::ops
