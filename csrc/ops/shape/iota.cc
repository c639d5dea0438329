// iota, and the importers of operators that create tensors: a scalar constant expanded, or an iota.
#include <fmt/core.h>

#include "ops/definition/node_support.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

void iota_reference(ReferenceCall& call) {
  ReferenceTensor& y = call.result();
  const double start = call.attributes.real("start"), step = call.attributes.real("step");
  const Split3 split = split_at(y.type.shape, call.attributes.integer("dim"));
  for (int64_t i = 0; i < y.size(); ++i)
    y.values[i] = start + step * static_cast<double>(i / split.inner % split.size);
}

ir::Value* make_iota(ImportCall& call, Shape shape, int64_t dim, DType dtype, double start = 0.0,
                     double step = 1.0) {
  return call.op(
      "iota", {},
      {{"shape", std::move(shape)}, {"dim", dim}, {"dtype", dtype}, {"start", start}, {"step", step}});
}

void import_splat(AtenImportCall& call, double value) {
  call.set_result(0, call.builder().splat(call.result_type(0), value));
}

void import_arange(AtenImportCall& call) {
  const ir::Type type = call.result_type(0);
  const double start = call.has("start") ? call.real("start") : 0.0,
               step = call.has("step") ? call.real("step") : 1.0;
  call.set_result(0, make_iota(call, type.shape, 0, type.dtype, start, step));
}

// column - row of each element of a matrix (the last two dimensions).
ir::Value* diagonal_number(ImportCall& call, const Shape& shape) {
  const Shape matrix(shape.end() - 2, shape.end());
  return call.op("sub", {make_iota(call, matrix, 1, DType::kI32), make_iota(call, matrix, 0, DType::kI32)});
}

void import_eye(AtenImportCall& call) {
  const ir::Type type = call.result_type(0);
  ir::Value* on =
      call.op("equal", {diagonal_number(call, type.shape), call.builder().scalar(DType::kI32, 0)});
  call.set_result(0, call.cast(on, type.dtype));
}

void import_triangle(AtenImportCall& call, std::string_view comparison) {
  ir::Value* x = call.tensor("self");
  const double diagonal = call.has("diagonal") ? static_cast<double>(call.clamped_integer("diagonal")) : 0.0;
  ir::Value* keep = call.op(
      comparison, {diagonal_number(call, x->type().shape), call.builder().scalar(DType::kI32, diagonal)});
  call.set_result(0, call.op("where", {keep, x, call.builder().scalar(x->type().dtype, 0.0)}));
}

// The elements from diagonal k on (`upper`) or up to it.
void import_trilu(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  if (x->type().shape.size() < 2)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {}, which is no matrix.",
                                                      call.described(), to_string(x->type().shape)));
  int64_t diagonal = 0;
  if (call.has_operand(1)) {
    const std::vector<int64_t> k = call.clamped_operand_integers(1, "k");
    if (k.size() != 1)
      throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: k of {} has {} elements; it is one.",
                                                        call.described(), k.size()));
    diagonal = k[0];
  }
  ir::Value* keep = call.op(call.integer("upper", 1) == 1 ? "greater_equal" : "less_equal",
                            {diagonal_number(call, x->type().shape),
                             call.builder().scalar(DType::kI32, static_cast<double>(diagonal))});
  call.set_result(0, call.op("where", {keep, x, call.builder().scalar(x->type().dtype, 0.0)}));
}

const OpRegistration iota =
    define_op("iota", "shape")
        .doc("start + step * i, i being the index along dimension dim.")
        .attribute("shape")
        .attribute("dim", int64_t{0})
        .attribute("dtype", DType::kI32)
        .attribute("start", 0.0)
        .attribute("step", 1.0)
        .result("y")
        .infer([](const InferContext& c) {
          const Shape& shape = c.attributes.integers("shape");
          per_dimension(c, "shape", shape.size(), 0);
          const int64_t dim = dimension(c, "dim", shape.size());
          const double start = c.attributes.real("start"),
                       last = start + c.attributes.real("step") *
                                          static_cast<double>(std::max<int64_t>(shape[dim] - 1, 0));
          if (is_integer(c.attributes.dtype("dtype")) &&
              (std::min(start, last) < -2147483648.0 || std::max(start, last) > 4294967295.0 ||
               (c.attributes.dtype("dtype") != DType::kU32 && std::max(start, last) > 2147483647.0))) {
            attribute_error(fmt::format("numbers from {:f} to {:f} do not fit 32-bit integers", start, last));
          }
          return std::vector<ir::Type>{{c.attributes.dtype("dtype"), shape}};
        })
        .gradient_zero()
        .reference(iota_reference)
        .work(no_work())  // a constant
        .from_aten({"zeros", "zeros_like", "new_zeros", "empty.memory_format", "empty_like", "new_empty",
                    "empty_strided", "new_empty_strided"},
                   [](AtenImportCall& call) { import_splat(call, 0.0); })
        .from_aten({"ones", "ones_like", "new_ones"}, [](AtenImportCall& call) { import_splat(call, 1.0); })
        .from_aten({"full", "full_like", "new_full"},
                   [](AtenImportCall& call) { import_splat(call, call.real("fill_value")); })
        .from_aten({"fill.Scalar", "fill.Tensor"},
                   [](AtenImportCall& call) {
                     const ir::Type type = call.result_type(0);
                     call.set_result(0, expanded(call, call.operand("value", type.dtype), type.shape));
                   })
        .from_aten({"scalar_tensor"}, [](AtenImportCall& call) { import_splat(call, call.real("s")); })
        .from_aten({"arange", "arange.start", "arange.start_step"}, import_arange)
        .from_aten({"eye", "eye.m"}, import_eye)
        .from_aten({"tril"}, [](AtenImportCall& call) { import_triangle(call, "less_equal"); })
        .from_aten({"triu"}, [](AtenImportCall& call) { import_triangle(call, "greater_equal"); })
        .from_onnx("Trilu", {14}, import_trilu)
        .samples({{{}, {{"shape", Shape{5}}}},
                  {{},
                   {{"shape", Shape{2, 3}},
                    {"dim", int64_t{1}},
                    {"dtype", DType::kF32},
                    {"start", -1.0},
                    {"step", 0.5}}}});

}  // namespace
}  // namespace ipu::ops
