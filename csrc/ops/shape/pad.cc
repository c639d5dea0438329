// pad: a constant border. Negative padding is a slice; reflected, repeated and circular borders are pieces of
// x put together, by the importers.
#include <fmt/core.h>

#include <numeric>

#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

ir::Type pad_type(const InferContext& c) {
  ir::Type y{c.operand(0).dtype, c.operand(0).shape};
  const auto& low = per_dimension(c, "low", y.shape.size(), 0);
  const auto& high = per_dimension(c, "high", y.shape.size(), 0);
  for (size_t d = 0; d < y.shape.size(); ++d) y.shape[d] += low[d] + high[d];
  return y;
}

void pad_reference(ReferenceCall& call) {
  const auto& low = call.attributes.integers("low");
  ReferenceTensor& y = call.result();
  std::fill(y.values.begin(), y.values.end(), round_to(y.type.dtype, call.attributes.real("value")));
  const Strides strides = contiguous_strides(y.type.shape);
  int64_t start = 0;
  for (size_t d = 0; d < low.size(); ++d) start += low[d] * strides[d];
  const std::vector<double>& source = call.operand(0).values;
  for_each_offset(call.operand(0).type.shape, strides, start,
                  [&](int64_t linear, int64_t offset) { y.values[offset] = source[linear]; });
}

// Padding as torch gives it, [low, high] from the last dimension backwards, as one pair per dimension.
struct Border {
  std::vector<int64_t> low, high;
};
Border read_border(const std::vector<int64_t>& pairs, size_t rank, AtenImportCall& call) {
  if (pairs.size() % 2 != 0 || pairs.size() / 2 > rank) {
    call.unsupported(fmt::format("padding {} of a tensor with {} dimensions", to_string(pairs), rank));
  }
  Border border{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  for (size_t i = 0; i * 2 < pairs.size(); ++i) {
    border.low[rank - 1 - i] = pairs[2 * i];
    border.high[rank - 1 - i] = pairs[2 * i + 1];
  }
  return border;
}

ir::Value* pad_constant(ImportCall& call, ir::Value* x, Border border, double value) {
  for (size_t d = 0; d < border.low.size(); ++d) {
    const int64_t cut_low = std::max<int64_t>(0, -border.low[d]),
                  cut_high = std::max<int64_t>(0, -border.high[d]);
    x = sliced(call, x, static_cast<int64_t>(d), cut_low, x->type().shape[d] - cut_low - cut_high);
    border.low[d] += cut_low;
    border.high[d] += cut_high;
  }
  const auto none = [](const std::vector<int64_t>& list) {
    return std::all_of(list.begin(), list.end(), [](int64_t v) { return v == 0; });
  };
  if (none(border.low) && none(border.high)) return x;
  return call.op("pad", {x}, {{"low", border.low}, {"high", border.high}, {"value", value}});
}

enum class Edge { kReflect, kReplicate, kCircular };

// `count` elements that stand before (or after) x along dim.
ir::Value* edge_of(ImportCall& call, ir::Value* x, int64_t dim, int64_t count, bool before, Edge edge) {
  const int64_t n = x->type().shape[dim];
  switch (edge) {
    case Edge::kReflect:
      return call.op("flip", {sliced(call, x, dim, before ? 1 : n - 1 - count, count)},
                     {{"dims", Shape{dim}}});
    case Edge::kCircular:
      return sliced(call, x, dim, before ? n - count : 0, count);
    case Edge::kReplicate: {
      Shape shape = x->type().shape;
      shape[dim] = count;
      return expanded(call, sliced(call, x, dim, before ? 0 : n - 1, 1), shape);
    }
  }
  return x;
}

[[noreturn]] void refuse_padding(ImportCall& call, const Border& border, size_t dim, int64_t size) {
  call.unsupported(fmt::format("padding ({}, {}) of a dimension of size {} in this mode", border.low[dim],
                               border.high[dim], size));
}

// Negative padding cuts off: what the other end gets is taken from all of x, or goes round what is left.
ir::Value* pad_edges(ImportCall& call, ir::Value* x, const Border& border, Edge edge) {
  for (size_t i = border.low.size(); i-- > 0;) {
    const auto dim = static_cast<int64_t>(i);
    const int64_t low = border.low[i], high = border.high[i];
    if (low == 0 && high == 0) continue;
    const int64_t cut = std::max<int64_t>(0, -low), end = std::max<int64_t>(0, -high);
    const auto cropped = [&] {
      return cut + end == 0 ? x : sliced(call, x, dim, cut, x->type().shape[i] - cut - end);
    };
    if (edge == Edge::kCircular) x = cropped();
    const int64_t n = x->type().shape[i], most = edge == Edge::kReflect    ? n - 1
                                                 : edge == Edge::kCircular ? n
                                                                           : INT64_MAX;
    if (low > most || high > most) refuse_padding(call, border, i, n);
    std::vector<ir::Value*> pieces;
    if (low > 0) pieces.push_back(edge_of(call, x, dim, low, true, edge));
    pieces.push_back(x);
    if (high > 0) pieces.push_back(edge_of(call, x, dim, high, false, edge));
    x = concatenated(call, pieces, dim);
    if (edge != Edge::kCircular) x = cropped();
  }
  return x;
}

void import_constant_pad(AtenImportCall& call, std::string_view value_name) {
  ir::Value* x = call.tensor("self");
  const double value = call.has(value_name) ? call.real(value_name) : 0.0;
  call.set_result(
      0, pad_constant(call, x, read_border(call.integers("pad"), x->type().shape.size(), call), value));
}

void import_edge_pad(AtenImportCall& call, std::string_view list, Edge edge) {
  ir::Value* x = call.tensor("self");
  call.set_result(0,
                  pad_edges(call, x, read_border(call.integers(list), x->type().shape.size(), call), edge));
}

void import_pad(AtenImportCall& call) {
  const std::string mode = call.has("mode") ? call.text("mode") : "constant";
  if (mode == "constant") return import_constant_pad(call, "value");
  if (mode == "reflect") return import_edge_pad(call, "pad", Edge::kReflect);
  if (mode == "replicate") return import_edge_pad(call, "pad", Edge::kReplicate);
  if (mode == "circular") return import_edge_pad(call, "pad", Edge::kCircular);
  call.unsupported(fmt::format("mode=\"{}\"", mode));
}

// ONNX: first all that stands before, then all that stands behind; of all dimensions, or of `axes`.
Border read_onnx_border(NodeImportCall& call, size_t rank) {
  const std::vector<int64_t> pads =
      call.version() < 11 ? call.integers("pads") : call.operand_integers(1, "pads");
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (call.version() >= 18 && call.has_operand(3)) {
    axes = call.operand_integers(3, "axes");
    for (int64_t& axis : axes) axis = node_dim(call, axis, rank);
  }
  if (pads.size() != 2 * axes.size())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} has pads {}; {} dimensions are padded, so there must be {}.",
                            call.described(), to_string(pads), axes.size(), 2 * axes.size()));
  Border border{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    border.low[axes[i]] = pads[i];
    border.high[axes[i]] = pads[i + axes.size()];
  }
  return border;
}

void import_onnx_pad(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Border border = read_onnx_border(call, x->type().shape.size());
  const std::string mode = call.text("mode", "constant");
  double value = 0.0;
  if (call.version() < 11) {
    value = call.real("value", 0.0);
  } else if (call.has_operand(2)) {
    value = call.operand_real(2, "constant_value");
    if (is_integer(x->type().dtype))
      call.operand_integers(2, "constant_value");  // refuses what 32 bits do not hold
  }
  if (mode == "constant") return call.set_result(0, pad_constant(call, x, border, value));
  if (call.is_popart() && (mode == "reflect" || mode == "edge")) {
    ir::Value* y = pad_edges(call, x, border, mode == "edge" ? Edge::kReplicate : Edge::kReflect);
    return call.set_result(0, forward_only(call, y));
  }
  for (size_t d = 0; d < border.low.size(); ++d) {
    if (border.low[d] < 0 || border.high[d] < 0) refuse_padding(call, border, d, x->type().shape[d]);
  }
  if (mode == "reflect") return call.set_result(0, pad_edges(call, x, border, Edge::kReflect));
  if (mode == "edge") return call.set_result(0, pad_edges(call, x, border, Edge::kReplicate));
  if (mode == "wrap" && call.version() >= 19)
    return call.set_result(0, pad_edges(call, x, border, Edge::kCircular));
  call.unsupported(fmt::format("mode=\"{}\"", mode));
}

const OpRegistration pad =
    define_op("pad", "shape")
        .doc("x with low[d] elements of `value` before it and high[d] after it along every dimension d.")
        .operand("x", kAnything)
        .attribute("low")
        .attribute("high")
        .attribute("value", 0.0)
        .result("y")
        .infer([](const InferContext& c) { return std::vector<ir::Type>{pad_type(c)}; })
        .gradient([](GradientBuilder& g) {
          const Shape& shape = g.operand_type(0).shape;
          g.set(0, g.op("slice", {g.upstream()},
                        {{"starts", g.attributes().integers("low")},
                         {"sizes", shape},
                         {"steps", Shape(shape.size(), 1)}}));
        })
        .reference(pad_reference)
        .work(one_pass({""}))
        .from_onnx("Pad", {2}, import_onnx_pad)
        .from_aten({"constant_pad_nd"}, [](AtenImportCall& call) { import_constant_pad(call, "value"); })
        .from_aten({"pad"}, import_pad)
        .from_aten({"reflection_pad1d", "reflection_pad2d", "reflection_pad3d"},
                   [](AtenImportCall& call) { import_edge_pad(call, "padding", Edge::kReflect); })
        .from_aten({"replication_pad1d", "replication_pad2d", "replication_pad3d"},
                   [](AtenImportCall& call) { import_edge_pad(call, "padding", Edge::kReplicate); })
        .samples(
            {{{ir::Type{DType::kF32, {2, 3}}}, {{"low", Shape{0, 1}}, {"high", Shape{2, 0}}, {"value", 0.0}}},
             {{ir::Type{DType::kF32, {4}}}, {{"low", Shape{2}}, {"high", Shape{1}}, {"value", -1.5}}},
             {{ir::Type{DType::kI32, {1, 2}}},
              {{"low", Shape{1, 1}}, {"high", Shape{1, 1}}, {"value", 7.0}}}});

const PopartOperators pad_popart = {{
    {"Pad", "2 11", "data:N !pads:COUNT !constant_value:N", "output:N", "yes",
     "mode=constant|edge|reflect pads value"},
}};

}  // namespace
}  // namespace ipu::ops
