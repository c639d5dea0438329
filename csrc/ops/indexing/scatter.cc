// scatter: elements of src put, multiplied or compared into x by index along one dimension; with scatter_add
// the way of all torch operators that write by index: scatter in all forms, index_put, index_copy,
// index_fill, index_reduce.
#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "ops/definition/sample_types.h"
#include "ops/indexing/index_support.h"
#include "support/log.h"

namespace ipu::ops {
namespace {

double combined(const std::string& mode, double a, double b) {
  if (mode == "assign") return b;
  if (mode == "multiply") return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return mode == "max" ? std::max(a, b) : std::min(a, b);
}

void scatter_reference(ReferenceCall& call) {
  const int64_t dim = call.attributes.integer("dim");
  const std::string& mode = call.attributes.text("mode");
  const Shape& x = call.operand(0).type.shape;
  call.result().values = call.operand(0).values;
  Strides strides = contiguous_strides(x);
  const int64_t along = strides[dim];
  strides[dim] = 0;
  for_each_offset(call.operand(1).type.shape, strides, 0, [&](int64_t linear, int64_t offset) {
    const int64_t element = offset + checked_index(call.operand(1), linear, x[dim], "scatter") * along;
    double& to = call.result().values[element];
    to = combined(mode, to, call.operand(2).values[linear]);
  });
}

// Gradients as torch has them: equal extremes share; a product without an element is the product of the
// others even where that element is 0.
class ScatterGradient {
 public:
  explicit ScatterGradient(GradientBuilder& g)
      : g_(g), mode_(g.attributes().text("mode")), dy_(g.upstream()) {}

  void set() {
    if (mode_ == "assign") return set_assigned();
    if (mode_ == "multiply") return set_product();
    set_extreme();
  }

 private:
  ir::Value* gathered(ir::Value* y) { return g_.op("gather", {y, g_.operand(1)}, {{"dim", dim()}}); }
  ir::Value* summed(ir::Value* start, ir::Value* parts) {
    return g_.op("scatter_add", {start, g_.operand(1), parts}, {{"dim", dim()}});
  }
  ir::Value* number(ir::Value* condition) { return g_.cast(condition, g_.operand_type(0).dtype); }
  ir::Value* zero() { return g_.scalar_like(dy_, 0.0); }
  ir::Value* one() { return g_.scalar_like(dy_, 1.0); }
  int64_t dim() const { return g_.attributes().integer("dim"); }

  void set_assigned() {
    if (g_.needs(0)) {
      ir::Value* zeros = g_.zeros(g_.operand_type(2));
      g_.set(0, g_.op("scatter", {dy_, g_.operand(1), zeros}, {{"dim", dim()}}));
    }
    if (g_.needs(2)) g_.set(2, gathered(dy_));
  }

  void set_product() {
    ir::Value *x = g_.operand(0), *src = g_.operand(2);
    const Attributes multiply{{"dim", dim()}, {"mode", std::string("multiply")}};
    if (g_.needs(0)) {  // the product of what was multiplied into each element
      ir::Value* ones = g_.expand(one(), g_.operand_type(0).shape);
      g_.set(0, g_.mul(dy_, g_.op("scatter", {ones, g_.operand(1), src}, multiply)));
    }
    if (!g_.needs(2)) return;
    ir::Value* is_zero = g_.op("equal", {src, zero()});
    ir::Value* zeros = gathered(summed(g_.zeros(g_.operand_type(0)), number(is_zero)));
    ir::Value* only_zero = g_.op("logical_and", {is_zero, g_.op("equal", {zeros, one()})});
    ir::Value* others = g_.op("scatter", {x, g_.operand(1), g_.where(only_zero, one(), src)}, multiply);
    ir::Value* without = g_.div(gathered(g_.mul(dy_, g_.result())), g_.where(is_zero, one(), src));
    g_.set(2, g_.where(only_zero, gathered(g_.mul(dy_, others)), without));
  }

  void set_extreme() {
    ir::Value *y = g_.result(), *own = number(g_.op("equal", {g_.operand(0), y}));
    ir::Value* source = number(g_.op("equal", {g_.operand(2), gathered(y)}));
    ir::Value* share = g_.div(dy_, summed(own, source));
    if (g_.needs(0)) g_.set(0, g_.mul(own, share));
    if (g_.needs(2)) g_.set(2, g_.mul(source, gathered(share)));
  }

  GradientBuilder& g_;
  const std::string mode_;
  ir::Value* dy_;
};

const OpRegistration scatter =
    define_op("scatter", "indexing")
        .doc(
            "x with src[i, j, ...] put at x[index[i, j, ...], j, ...] for dim 0, and so on: mode assign (of "
            "equal "
            "indices the last in row-major order stays), multiply, max or min.")
        .operand("x", kAnything)
        .operand("index", kAnyInteger)
        .operand("src", kAnything)
        .attribute("dim")
        .attribute("mode", std::string("assign"))
        .result("y")
        .traits(kMayReuseFirstOperand)
        .infer([](const InferContext& c) {
          require_same_dtype(c, 0, 2);
          require_same_shape(c, 1, 2);
          one_of(c, "mode", {"assign", "multiply", "max", "min"});
          require_gatherable(c, c.operand(0).shape, c.operand(1).shape,
                             dimension(c, "dim", c.operand(0).shape.size()));
          return std::vector<ir::Type>{{c.operand(0).dtype, c.operand(0).shape}};
        })
        .gradient([](GradientBuilder& g) { ScatterGradient(g).set(); })
        .reference(scatter_reference)
        .work(scattered_elements)
        .samples({{{f32({4, 3}), i32({1, 3}), f32({1, 3})}, {{"dim", int64_t{0}}}, -1, 1, {{1, {0, 3}}}},
                  {{f32({3, 4}), i32({3, 5}), f32({3, 5})},
                   {{"dim", int64_t{1}}, {"mode", std::string("multiply")}},
                   0.5,
                   1.5,
                   {{1, {0, 3}}}},
                  {{f32({3, 4}), i32({2, 6}), f32({2, 6})},
                   {{"dim", int64_t{1}}, {"mode", std::string("max")}},
                   -1,
                   1,
                   {{1, {0, 3}}}},
                  {{i32({3, 4}), i32({2, 6}), i32({2, 6})},
                   {{"dim", int64_t{1}}, {"mode", std::string("min")}},
                   -9,
                   9,
                   {{1, {0, 3}}}}});

// --- importers

// One write by index: x, index and src of one rank.
struct Write {
  ir::Value *x, *index, *src;
  int64_t dim;
};

// Sums of truth values are their maximum, products their minimum.
ir::Value* put(AtenImportCall& call, const Write& w, std::string_view mode) {
  if (w.x->type().dtype == DType::kBool && mode != "assign") {
    const Write numbers{call.cast(w.x, DType::kU8), w.index, call.cast(w.src, DType::kU8), w.dim};
    return call.cast(put(call, numbers, mode == "add" || mode == "max" ? "max" : "min"), DType::kBool);
  }
  if (mode == "add") return call.op("scatter_add", {w.x, w.index, w.src}, {{"dim", w.dim}});
  return call.op("scatter", {w.x, w.index, w.src}, {{"dim", w.dim}, {"mode", std::string(mode)}});
}

ir::Value* scalar(AtenImportCall& call, const ir::Value* like, double value) {
  return call.builder().scalar(like->type().dtype, value);
}
ir::Value* filled(AtenImportCall& call, const ir::Value* like, double value) {
  return expanded(call, scalar(call, like, value), like->type().shape);
}

double lowest(DType dtype) {
  if (is_floating_point(dtype)) return -std::numeric_limits<double>::infinity();
  return dtype == DType::kI32 ? std::numeric_limits<int32_t>::min() : 0.0;
}
double highest(DType dtype) {
  if (is_floating_point(dtype)) return std::numeric_limits<double>::infinity();
  return std::numeric_limits<int32_t>::max();
}

// torch's words for reductions. Without the old value, an element that is written starts at what changes
// nothing.
ir::Value* reduce_into(AtenImportCall& call, Write w, const std::string& reduce, bool include_self) {
  const DType dtype = w.x->type().dtype;
  const bool mean = reduce == "mean", sum = reduce == "sum" || reduce == "add" || mean;
  const bool product = reduce == "prod" || reduce == "multiply";
  if (!sum && !product && reduce != "amax" && reduce != "amin")
    call.unsupported(fmt::format("reduce=\"{}\"", reduce));
  if (!include_self) {
    const double neutral = sum ? 0.0 : product ? 1.0 : reduce == "amax" ? lowest(dtype) : highest(dtype);
    w.x = put(call, {w.x, w.index, filled(call, w.src, neutral), w.dim}, "assign");
    if (mean) w.x->producer()->settings.outline.set(kClearsCounts, true);
  }
  ir::Value* y = put(call, w, sum ? "add" : product ? "multiply" : reduce == "amax" ? "max" : "min");
  if (!mean) return y;
  ir::Value* start = filled(call, w.x, include_self ? 1.0 : 0.0);
  ir::Value* count = put(call, {start, w.index, filled(call, w.src, 1.0), w.dim}, "add");
  if (!include_self) count = call.op("maximum", {count, scalar(call, count, 1.0)});
  if (is_floating_point(dtype)) return call.op("div", {y, count});
  return call.op("floor_divide", {y, count});
}

// self, index and src of the scatter operators; of a source larger than the index torch reads what it covers.
Write read_scatter(AtenImportCall& call) {
  Write w{call.tensor("self"), call.cast(call.tensor("index"), DType::kI32), nullptr, 0};
  const bool is_scalar = w.x->type().shape.empty();
  if (is_scalar) {
    w.x = reshaped(call, w.x, {1});
    w.index = reshaped(call, w.index, {w.index->type().elements()});
  }
  const Shape& shape = w.index->type().shape;
  if (shape.size() != w.x->type().shape.size())
    call.unsupported("self and index must have the same number of dimensions");
  w.dim = normalize_dim(call.integer("dim"), w.x->type().shape.size());
  if (call.has("value")) {
    w.src = expanded(call, call.operand("value", w.x->type().dtype), shape);
    return w;
  }
  w.src = call.cast(call.tensor("src"), w.x->type().dtype);
  if (is_scalar) w.src = reshaped(call, w.src, {w.src->type().elements()});
  if (w.src->type().shape.size() != shape.size())
    call.unsupported("index and src must have the same number of dimensions");
  for (size_t d = 0; d < shape.size(); ++d) w.src = sliced(call, w.src, static_cast<int64_t>(d), 0, shape[d]);
  return w;
}

void import_scatter(AtenImportCall& call) {
  const Write w = read_scatter(call);
  const bool include_self = !call.has("include_self") || call.boolean("include_self");
  ir::Value* y =
      call.has("reduce") ? reduce_into(call, w, call.text("reduce"), include_self) : put(call, w, "assign");
  call.set_result(0, reshaped(call, y, call.result_type(0).shape));
}

// Whole slices: the index [n] stands for each element of its slice.
Write slices(AtenImportCall& call, ir::Value* x, ir::Value* index, ir::Value* src, int64_t dim) {
  Shape shape = x->type().shape, column(shape.size(), 1);
  const int64_t count = index->type().elements();
  shape[dim] = column[dim] = count;
  return {x, expanded(call, reshaped(call, index, column), shape), expanded(call, src, shape), dim};
}

// One flag for each slice says whether it is filled: an index that is named twice counts once.
void import_index_fill(AtenImportCall& call) {
  ir::Value *x = call.tensor("self"), *index = call.cast(call.tensor("index"), DType::kI32);
  const Shape result = x->type().shape;
  if (result.empty()) x = reshaped(call, x, {1});
  Shape column(x->type().shape.size(), 1);
  const int64_t dim = normalize_dim(call.integer("dim"), column.size()), size = x->type().shape[dim];
  const int64_t count = index->type().elements();
  index = index_from_front(call, reshaped(call, index, {count}), size);
  ir::Value* filled = put(call,
                          {call.builder().splat({DType::kBool, {size}}, 0.0), index,
                           call.builder().splat({DType::kBool, {count}}, 1.0), 0},
                          "assign");
  column[dim] = size;
  ir::Value* y =
      call.op("where", {reshaped(call, filled, column), call.operand("value", x->type().dtype), x});
  call.set_result(0, reshaped(call, y, result));
}

void import_slices(AtenImportCall& call) {
  ir::Value *x = call.tensor("self"), *index = call.cast(call.tensor("index"), DType::kI32);
  const Shape result = x->type().shape;
  ir::Value* src = call.operand("source", x->type().dtype);
  if (result.empty()) {
    x = reshaped(call, x, {1});
    src = reshaped(call, src, {src->type().elements()});
  }
  const int64_t dim = normalize_dim(call.integer("dim"), x->type().shape.size());
  const Write w = slices(call, x, index, src, dim);  // torch's do not count from the end
  const bool include_self = !call.has("include_self") || call.boolean("include_self");
  ir::Value* y =
      call.has("reduce") ? reduce_into(call, w, call.text("reduce"), include_self) : put(call, w, "assign");
  call.set_result(0, reshaped(call, y, result));
}

// x[mask] = v: v may not depend on how many elements the mask takes.
void import_masked_put(AtenImportCall& call, ir::Value* x, ir::Value* mask, size_t first, ir::Value* v,
                       bool add) {
  const Shape& shape = x->type().shape;
  const size_t covered = mask->type().shape.size(), rest = shape.size() - first - covered;
  Shape tail = v->type().shape;
  while (tail.size() > rest && tail.front() == 1) tail.erase(tail.begin());
  if (first != 0 || tail.size() > rest) {
    call.unsupported("values for a boolean mask that are counted by the mask; use torch.where");
  }
  Shape column = mask->type().shape;
  column.resize(covered + rest, 1);
  ir::Value* wide = expanded(call, reshaped(call, mask, column), shape);
  v = expanded(call, reshaped(call, v, tail), shape);
  if (add) v = call.op("add", {x, v});
  call.set_result(0, call.op("where", {wide, v, x}));
}

void import_index_put(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const DType dtype = x->type().dtype;
  const std::vector<ir::Value*> indices = call.tensors("indices");
  ir::Value* v = call.cast(call.tensor("values"), dtype);
  const bool add = call.has("accumulate") && call.boolean("accumulate");
  for (size_t d = 0; d < indices.size(); ++d) {
    if (indices[d] == nullptr) continue;
    const DType kind = indices[d]->type().dtype;
    if (kind != DType::kBool && kind != DType::kU8) continue;
    if (std::count(indices.begin(), indices.end(), nullptr) + 1 != std::ssize(indices))
      call.unsupported("a boolean mask together with another index; use torch.where");
    return import_masked_put(call, x, call.cast(indices[d], DType::kBool), d, v, add);
  }
  const std::optional<MergedIndex> merged = merge_indices(call, x, indices);
  if (!merged)
    return call.set_result(0, add ? call.op("add", {x, expanded(call, v, x->type().shape)})
                                  : expanded(call, v, x->type().shape));
  const auto is_list = [](ir::Value* index) { return index != nullptr && index->type().shape.size() == 1; };
  if (!add && std::count_if(indices.begin(), indices.end(), is_list) == 1 &&
      std::count(indices.begin(), indices.end(), nullptr) + 1 == std::ssize(indices))
    log(LogLevel::kTrace, "Using vectorized ScatterReduce with none reduction");
  // In the order of merged.moved: the index dimensions where the indexed ones stood, then written back.
  Shape taken = merged->moved_shape;
  taken.erase(taken.begin() + merged->place, taken.begin() + merged->place + merged->count);
  taken.insert(taken.begin() + merged->place, merged->index_shape.begin(), merged->index_shape.end());
  v = expanded(call, v, taken);
  Shape flat = merged->flat->type().shape;
  flat[merged->place] = element_count(merged->index_shape);
  Write w = slices(call, merged->flat, merged->index, reshaped(call, v, flat), merged->place);
  ir::Value* y = reshaped(call, put(call, w, add ? "add" : "assign"), merged->moved_shape);
  std::vector<int64_t> back(merged->perm.size());
  for (size_t i = 0; i < back.size(); ++i) back[merged->perm[i]] = static_cast<int64_t>(i);
  call.set_result(0, transposed(call, y, back));
}

struct IndexingScatterRegistrations {
  IndexingScatterRegistrations() {
    for (const char* name :
         {"scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_reduce.two"}) {
      register_aten_importer(name, import_scatter);
    }
    for (const char* name : {"index_copy", "index_reduce"}) register_aten_importer(name, import_slices);
    for (const char* name : {"index_fill.int_Scalar", "index_fill.int_Tensor"})
      register_aten_importer(name, import_index_fill);
    for (const char* name : {"index_put", "_index_put_impl"}) register_aten_importer(name, import_index_put);
  }
};
const IndexingScatterRegistrations indexing_scatter_registrations;

}  // namespace
}  // namespace ipu::ops
