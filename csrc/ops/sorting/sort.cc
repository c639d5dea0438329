// sort: values in order along one dimension with the places they came from; topk, argsort and median are cut
// out of it. Equal values keep their order, NaN counts as largest.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/definition/work.h"

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
        .work([](const ir::Op& op) -> std::vector<target::Work> {
          const int64_t dim = op.attributes.integer("dim");
          const Split3 s = split_at(op.operand(0)->type().shape, dim);
          return {{target::SortWork{.rows = s.outer * s.inner,
                                    .columns = s.size,
                                    .kept = op.result(0)->type().shape[static_cast<size_t>(dim)],
                                    .has_values = true}}};
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

// With sorted=False any order will do: this one.
void import_topk(AtenImportCall& call) {
  const bool largest = !call.has("largest") || call.boolean("largest");
  const int64_t dim = call.has("dim") ? call.integer("dim") : -1;
  set_sorted(call, sorted(call, sortable(call), dim, largest, call.integer("k")));
}

// The elements a median is taken of: sorted along dim, a dimension of x.
struct Line {
  ir::Value* x;
  int64_t dim, size;
  Sorted sorted;
};
Line sorted_line(AtenImportCall& call, ir::Value* x, int64_t dim) {
  if (x->type().shape.empty()) x = reshaped(call, x, {1});
  dim = normalize_dim(dim, x->type().shape.size());
  return {x, dim, x->type().shape[dim], sorted(call, x, dim, false, -1)};
}

// The lower of the two middle elements; the first NaN if there is one.
Sorted median(AtenImportCall& call, const Line& line) {
  const auto at = [&](ir::Value* v, int64_t place) { return sliced(call, v, line.dim, place, 1); };
  const int64_t middle = (line.size - 1) / 2;
  ir::Value *value = at(line.sorted.values, middle), *index = at(line.sorted.indices, middle);
  if (!is_floating_point(line.x->type().dtype)) return {value, index};
  ir::Value* unordered = call.op("is_nan", {at(line.sorted.values, line.size - 1)});
  ir::Value* first = call.op("argmax", {line.x}, {{"dim", line.dim}, {"keep_dims", true}});
  index = call.op("where", {unordered, first, index});
  return {call.op("gather", {line.x, index}, {{"dim", line.dim}}), index};
}

// The lower of the two middle elements of those that are not NaN; the first NaN if there is no other.
Sorted nan_median(AtenImportCall& call, const Line& line) {
  if (!is_floating_point(line.x->type().dtype)) return median(call, line);
  const auto number = [&](double v) { return call.builder().scalar(DType::kI32, v); };
  ir::Value* ordered = call.op("logical_not", {call.op("is_nan", {line.x})});
  ir::Value* count = call.op("reduce_sum", {call.cast(ordered, DType::kI32)},
                             {{"dims", std::vector<int64_t>{line.dim}}, {"keep_dims", true}});
  ir::Value* last = call.op("maximum", {call.op("sub", {count, number(1)}), number(0)});
  ir::Value* middle = call.op("floor_divide", {last, number(2)});
  ir::Value* index = call.op("gather", {line.sorted.indices, middle}, {{"dim", line.dim}});
  return {call.op("gather", {line.x, index}, {{"dim", line.dim}}), index};
}

using Median = Sorted (*)(AtenImportCall&, const Line&);

void import_median_of_all(AtenImportCall& call, Median rule) {
  ir::Value* x = call.tensor("self");
  x = reshaped(call, x, {x->type().elements()});
  ir::Value* value = rule(call, sorted_line(call, x, 0)).values;
  if (is_floating_point(x->type().dtype)) {
    // Equal elements share the gradient, as in torch and as those of a largest element do. So the median is made the
    // largest: of it, its equals and a number that is smaller. Below zero the signs are changed for that.
    value = call.op("detach", {value});
    const auto scalar = [&](double v) { return call.builder().scalar(x->type().dtype, v); };
    ir::Value* sign = call.op("where", {call.op("less", {value, scalar(0.0)}), scalar(-1.0), scalar(1.0)});
    ir::Value* equal = call.op("logical_or", {call.op("equal", {x, value}), call.op("is_nan", {value})});
    ir::Value* equals = call.op("where", {equal, call.op("mul", {x, sign}), scalar(-1.0)});
    value = call.op("reduce_max", {equals}, {{"dims", std::vector<int64_t>{0}}, {"keep_dims", true}});
    value = call.op("mul", {value, sign});
  }
  call.set_result(0, reshaped(call, value, call.result_type(0).shape));
}

void import_median(AtenImportCall& call, Median rule) {
  set_sorted(call, rule(call, sorted_line(call, call.tensor("self"), call.integer("dim"))));
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
    const std::pair<std::string, Median> medians[] = {{"median", median}, {"nanmedian", nan_median}};
    for (const auto& [name, rule] : medians) {
      register_aten_importer(name, [rule](AtenImportCall& call) { import_median_of_all(call, rule); });
      register_aten_importer(name + ".dim", [rule](AtenImportCall& call) { import_median(call, rule); });
    }
  }
};
const SortRegistrations sort_registrations;

}  // namespace
}  // namespace ipu::ops
