// sort: values in order along one dimension with the places they came from; topk, argsort and median are cut
// out of it. Equal values keep their order, NaN counts as largest.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"

namespace ipu::ops {
namespace {

std::vector<ir::Type> sort_types(const InferContext& c) {
  const ir::Type& x = c.operand(0);
  const int64_t dim = dimension(c, "dim", x.shape.size());
  const int64_t count = c.attributes.integer("count");
  if (count > x.shape[dim] || count < -1) {
    attribute_error(fmt::format("count {} of {} elements along dimension {}", count, x.shape[dim], dim));
  }
  Shape shape = x.shape;
  if (count >= 0) shape[dim] = count;
  return {{x.dtype, shape}, {DType::kI32, shape}};
}

void sort_reference(ReferenceCall& call) {
  const Split3 s = split_at(call.operand(0).type.shape, call.attributes.integer("dim"));
  const bool descending = call.attributes.boolean("descending");
  const int64_t count = call.result(0).type.shape[call.attributes.integer("dim")];
  const std::vector<double>& x = call.operand(0).values;
  std::vector<int64_t> order(static_cast<size_t>(s.size));
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < s.inner; ++i) {
      const auto at = [&](int64_t k) { return x[(o * s.size + k) * s.inner + i]; };
      const auto less = [&](double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return descending ? less(at(b), at(a)) : less(at(a), at(b));
      });
      for (int64_t k = 0; k < count; ++k) {
        const int64_t to = (o * count + k) * s.inner + i;
        call.result(0).values[to] = at(order[static_cast<size_t>(k)]);
        call.result(1).values[to] = static_cast<double>(order[static_cast<size_t>(k)]);
      }
    }
  }
}

const OpRegistration sort =
    define_op("sort", "sorting")
        .doc(
            "x in order along dim, and the index each value had; of equal values the first comes first. With "
            "count, "
            "only that many from the front.")
        .operand("x", kNumber)
        .attribute("dim")
        .attribute("descending", false)
        .attribute("count", int64_t{-1})
        .result("values")
        .result("indices")
        .traits(kExpensive)
        .infer(sort_types)
        .gradient([](GradientBuilder& g) {
          if (g.upstream(0) == nullptr) return;
          g.set(0, g.op("scatter_add", {g.zeros(g.operand_type(0)), g.result(1), g.upstream(0)},
                        {{"dim", g.attributes().integer("dim")}}));
        })
        .reference(sort_reference)
        .cost([](const ir::Op& op) {
          const ir::Type& x = op.operand(0)->type();
          const double n = static_cast<double>(x.elements());
          const double size = static_cast<double>(
              std::max<int64_t>(2, x.shape[static_cast<size_t>(op.attributes.integer("dim"))]));
          return Cost{n * std::log2(size), static_cast<double>(x.bytes()),
                      static_cast<double>(op.result(0)->type().bytes() + op.result(1)->type().bytes())};
        })
        .samples({{{f32({3, 5})}, {{"dim", int64_t{1}}}},
                  {{f32({4, 3})}, {{"dim", int64_t{0}}, {"descending", true}}},
                  {{f32({2, 6, 2})}, {{"dim", int64_t{1}}, {"descending", true}, {"count", int64_t{2}}}},
                  {{ir::Type{DType::kF16, {7}}}, {{"dim", int64_t{0}}}},
                  {{i32({3, 4})}, {{"dim", int64_t{1}}, {"count", int64_t{3}}}, -3, 3}});

// --- importers

struct Sorted {
  ir::Value *values, *indices;
};

// A scalar is sorted as it is.
Sorted sorted(AtenImportCall& call, ir::Value* x, int64_t dim, bool descending, int64_t count) {
  if (x->type().shape.empty()) x = reshaped(call, x, {1});
  ir::Value* values = call.op(
      "sort", {x},
      {{"dim", normalize_dim(dim, x->type().shape.size())}, {"descending", descending}, {"count", count}});
  return {values, values->producer()->result(1)};
}

ir::Value* sortable(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  return x->type().dtype == DType::kBool ? call.cast(x, DType::kU8) : x;
}

void set_sorted(AtenImportCall& call, const Sorted& s) {
  ir::Value* values = reshaped(call, s.values, call.result_type(0).shape);
  call.set_result(0, call.cast(values, call.result_type(0).dtype));
  call.set_result(1, reshaped(call, s.indices, call.result_type(1).shape));
}

void import_sort(AtenImportCall& call) {
  const bool descending = call.has("descending") && call.boolean("descending");
  const int64_t dim = call.has("dim") ? call.integer("dim") : -1;
  set_sorted(call, sorted(call, sortable(call), dim, descending, -1));
}

void import_argsort(AtenImportCall& call) {
  const bool descending = call.has("descending") && call.boolean("descending");
  const int64_t dim = call.has("dim") ? call.integer("dim") : -1;
  const Sorted s = sorted(call, sortable(call), dim, descending, -1);
  call.set_result(0, reshaped(call, s.indices, call.result_type(0).shape));
}

void import_topk(AtenImportCall& call) {
  if (call.has("sorted") && !call.boolean("sorted")) call.unsupported("sorted=False; the values come sorted");
  const bool largest = !call.has("largest") || call.boolean("largest");
  const int64_t dim = call.has("dim") ? call.integer("dim") : -1;
  set_sorted(call, sorted(call, sortable(call), dim, largest, call.integer("k")));
}

// The lower of the two middle elements; NaN if there is one.
Sorted median(AtenImportCall& call, ir::Value* x, int64_t dim) {
  if (x->type().shape.empty()) x = reshaped(call, x, {1});
  dim = normalize_dim(dim, x->type().shape.size());
  const int64_t size = x->type().shape[dim], middle = (size - 1) / 2;
  const Sorted all = sorted(call, x, dim, false, -1);
  ir::Value *value = sliced(call, all.values, dim, middle, 1),
            *index = sliced(call, all.indices, dim, middle, 1);
  if (!is_floating_point(x->type().dtype)) return {value, index};
  ir::Value *last = sliced(call, all.values, dim, size - 1, 1),
            *last_index = sliced(call, all.indices, dim, size - 1, 1);
  ir::Value* unordered = call.op("is_nan", {last});
  return {call.op("where", {unordered, last, value}), call.op("where", {unordered, last_index, index})};
}

void import_median_of_all(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const Sorted m = median(call, reshaped(call, x, {x->type().elements()}), 0);
  if (!is_floating_point(x->type().dtype))
    return call.set_result(0, reshaped(call, m.values, call.result_type(0).shape));
  // Equal elements share the gradient, as in torch: the value is the mean of those that have it.
  ir::Value* value = call.op("detach", {m.values});
  ir::Value* flat = reshaped(call, x, {x->type().elements()});
  ir::Value* equal = call.op("equal", {flat, value});
  ir::Value* zero = call.builder().scalar(x->type().dtype, 0.0);
  const Attributes all{{"dims", std::vector<int64_t>{0}}, {"keep_dims", false}};
  ir::Value* deviation = call.op("where", {equal, call.op("sub", {flat, value}), zero});
  ir::Value* count = call.op("reduce_sum", {call.cast(equal, x->type().dtype)}, all);
  ir::Value* mean = call.op("div", {call.op("reduce_sum", {deviation}, all), count});
  ir::Value* unordered = call.op("is_nan", {value});
  ir::Value* shift = call.op("where", {reshaped(call, unordered, {}), zero, mean});
  call.set_result(0, call.op("add", {reshaped(call, value, {}), shift}));
}

void import_median(AtenImportCall& call) {
  set_sorted(call, median(call, call.tensor("self"), call.integer("dim")));
}

// The k-th smallest element, counted from 1.
void import_kth_value(AtenImportCall& call) {
  ir::Value* x = sortable(call);
  if (x->type().shape.empty()) x = reshaped(call, x, {1});
  const int64_t dim = normalize_dim(call.has("dim") ? call.integer("dim") : -1, x->type().shape.size());
  const int64_t k = call.integer("k");
  const Sorted s = sorted(call, x, dim, false, k);
  set_sorted(call, {sliced(call, s.values, dim, k - 1, 1), sliced(call, s.indices, dim, k - 1, 1)});
}

struct SortRegistrations {
  SortRegistrations() {
    for (const char* name : {"sort", "sort.stable"}) register_aten_importer(name, import_sort);
    for (const char* name : {"argsort", "argsort.stable"}) register_aten_importer(name, import_argsort);
    register_aten_importer("topk", import_topk);
    register_aten_importer("kthvalue", import_kth_value);
    register_aten_importer("median", import_median_of_all);
    register_aten_importer("median.dim", import_median);
  }
};
const SortRegistrations sort_registrations;

}  // namespace
}  // namespace ipu::ops
