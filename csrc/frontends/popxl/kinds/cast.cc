// Conversions between types; those from and to float8 scale by a power of two.
#include <fmt/core.h>

#include "frontends/popxl/kinds/float8.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

DataType target(const Attributes& attributes) { return static_cast<DataType>(attributes.integer("to")); }

DType device_target(const LowerCall& c) {
  const DataType to = target(c.attributes());
  const std::optional<DType> dtype = on_device(to);
  if (!dtype) c.refuse(fmt::format("the device has no {}", to_string(to)));
  return *dtype;
}

bool is_float8(DataType type) { return type == DataType::kFloat8_143 || type == DataType::kFloat8_152; }

// Types that the device narrows are kept: nothing of the IR says int64.
void infer_cast(InferCall& c) {
  const TensorInfo& x = c.input(0);
  const DataType to = target(c.attributes());
  if (is_float8(x.dtype) || is_float8(to))
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("cast without scale: {} to {}; pow2scale_cast_to_fp8 and pow2scale_cast_from_fp8 convert "
                    "8-bit floats.",
                    to_string(x), to_string(to)));
  if (!on_device(x.dtype) || !on_device(to))
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("unsupported dtype: {} to {}; the device has one of them not.", to_string(x),
                            to_string(to)));
  c.set_output(0, {to, x.shape, x.meta_shape});
}

const KindRegistration cast_kind =
    define_kind("Cast")
        .id("ai.onnx", 9)
        .gradient()
        .stops_gradient_where([](const Op& op) { return !is_floating_point(op.input(0)->info.dtype); })
        .infer(infer_cast)
        .lower([](LowerCall& c) {
          const DType dtype = device_target(c);
          ir::Value* x = c.input(0);
          c.set_output(
              0, x->type().dtype == dtype ? c.build("nop", {x}) : c.build("cast", {x}, {{"dtype", dtype}}));
        });

const KindRegistration to_float8_kind =
    define_kind("Pow2ScaleThenCast").graphcore().refuses_gradient().lower([](LowerCall& c) {
      c.set_output(0, c.build("to_float8", {c.input(0), scale_of(c, 1)}, {{"dtype", device_target(c)}}));
    });
const KindRegistration from_float8_kind =
    define_kind("CastThenPow2Scale").graphcore().refuses_gradient().lower([](LowerCall& c) {
      c.set_output(0, c.build("from_float8", {c.input(0), scale_of(c, 1)}, {{"dtype", device_target(c)}}));
    });

const CreatorRegistration cast_creators = {{
    {"CastOp Pow2ScaleThenCastOp CastThenPow2ScaleOp", "opid _to>to:number settings"},
}};

}  // namespace
}  // namespace ipu::popxl
