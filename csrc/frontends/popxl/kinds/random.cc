// Random numbers of a seed, u32 [2]. The same seed gives the same numbers; users vary it.
#include <fmt/core.h>

#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

// Attribute ratio: the probability of 0. Inputs: data, seed.
void dropout(LowerCall& c) {
  c.set_output(0, c.build("dropout", {c.input(0), c.input(1)}, {{"p", c.attributes().real("ratio")}}));
}

// One mask of attribute `shape` for all the elements it broadcasts to.
void shaped_dropout(LowerCall& c) {
  const Shape shape = integers_or_empty(c.attributes(), "shape");
  if (shape.size() > c.shape(0).size() || broadcast_shapes(shape, c.shape(0)) != c.shape(0))
    c.refuse(fmt::format("a mask of {} does not broadcast to the data", ipu::to_string(shape)));
  ir::Value* ones = c.builder().splat({c.type(0).dtype, shape}, 1.0);
  ir::Value* mask = c.build("dropout", {ones, c.input(1)}, {{"p", c.attributes().real("ratio")}});
  c.set_output(0, c.build("mul", {c.input(0), mask}));
}

DType type_of(const LowerCall& c) { return device_type(c, "dataType").value_or(DType::kF32); }

// Attributes shape, dataType, and low and high.
void uniform(LowerCall& c) {
  c.set_output(0, c.build("random_uniform", {c.input(0)},
                          {{"shape", integers_or_empty(c.attributes(), "shape")},
                           {"dtype", type_of(c)},
                           {"low", c.attributes().real("low", 0.0)},
                           {"high", c.attributes().real("high", 1.0)}}));
}

// Attributes shape, dataType, and mean and scale (the deviation).
void normal(LowerCall& c) {
  c.set_output(0, c.build("random_normal", {c.input(0)},
                          {{"shape", integers_or_empty(c.attributes(), "shape")},
                           {"dtype", type_of(c)},
                           {"mean", c.attributes().real("mean", 0.0)},
                           {"std", c.attributes().real("scale", 1.0)}}));
}

// Makes from seed [l, r] and number i the seed [l, 32 random bits of the seed [l, r + i]]. The bits come from a
// stream of their own because other ops may draw from that seed as well.
void modify_seed(LowerCall& c) {
  constexpr int64_t kStream = 1;
  if (c.shape(0) != Shape{2} || c.type(0).dtype != DType::kU32)
    c.refuse("the seed must be uint32 of shape (2,)");
  if (c.type(1).elements() != 1 || !is_integer(c.type(1).dtype)) c.refuse("the modifier must be one integer");
  const auto half = [&](int64_t i) {
    return c.build("slice", {c.input(0)}, {{"starts", Shape{i}}, {"sizes", Shape{1}}, {"steps", Shape{1}}});
  };
  ir::Value* number = c.reshape(c.cast(c.input(1), DType::kU32), {1});
  ir::Value* from = c.build("concat", {half(0), c.build("add", {half(1), number})}, {{"dim", int64_t{0}}});
  ir::Value* bits = c.build("random_bits", {from}, {{"shape", Shape{1}}, {"stream_id", kStream}});
  c.set_output(0, c.build("concat", {half(0), bits}, {{"dim", int64_t{0}}}));
}

const KindRegistration kinds[] = {
    define_kind("Dropout").id("ai.onnx", 10).late_types(LateTypes::kFloats).gradient({in(1)}).lower(dropout),
    define_kind("ShapedDropout")
        .graphcore()
        .late_types(LateTypes::kFloats)
        .gradient({in(1)})
        .lower(shaped_dropout),
    define_kind("RandomUniform").id("ai.onnx", 1).lower(uniform),
    define_kind("RandomNormal").id("ai.onnx", 1).lower(normal),
    define_kind("ModifyRandomSeed").graphcore().lower(modify_seed),
};

const CreatorRegistration random_creators = {{
    {"ModifyRandomSeedOp", "opid settings"},
    {"DropoutOp", "opid ratio_>ratio:real settings"},
    {"ShapedDropoutOp", "opid ratio_>ratio:real shape_>shape:ints settings"},
    {"RandomNormalOp",
     "opid shape_>shape:ints dataType_>dataType:number mean_>mean:real scale_>scale:real settings"},
    {"RandomUniformOp",
     "opid shape_>shape:ints dataType_>dataType:number high_>high:real low_>low:real settings"},
}};
const FunctionRegistration random_functions = {{
    {"Dropout", "dropout(t, seed_tensor, p:float>ratio) -> dropout_out",
     R"(Zeros each element with probability `p`; others are multiplied by 1 / (1 - p). The gradient draws from the same seed.

Args:
    t: any shape, floating.
    seed_tensor: (2,), uint32; vary it between uses, iterations and replicas.
    p: probability of zero, in [0, 1].

Returns:
    As `t`.

Raises:
    ValueError: the operands are on different IPUs or tile sets.
    popart.popart_exception: the seed or `p` does not fit.)",
     "y = ops.dropout(x, seed, p=0.1)"},
    {"ShapedDropout", "shaped_dropout(t, seed_tensor, shape:sizes, ratio:float) -> shapeddropout_out",
     R"(Dropout with one decision for all the elements of `t` that an element of `shape` broadcasts to.

Args:
    t: any shape, floating.
    seed_tensor: (2,), uint32.
    shape: broadcasts to that of `t`.
    ratio: probability of zero, in [0, 1].

Returns:
    As `t`.

Raises:
    ValueError: the operands are on different IPUs or tile sets.
    popart.popart_exception: `shape` does not broadcast to that of `t`, or the seed does not fit.)",
     "y = ops.shaped_dropout(x, seed, shape=(x.shape[0], 1), ratio=0.1)  # whole rows"},
    {"RandomUniform",
     "random_uniform(seed_tensor, shape:sizes, low:float=0.0, high:float=1.0, "
     "dtype:dtype>dataType=float32) -> random_uniform_out",
     R"(Uniform samples in [low, high). The same seed gives the same samples.

Args:
    seed_tensor: (2,), uint32; vary it between uses, iterations and replicas.
    shape, dtype: of the result; dtype is floating.
    low, high: bounds.

Raises:
    popart.popart_exception: the seed or the dtype does not fit.)",
     "u = ops.random_uniform(seed, (2, 3), low=-1.0)"},
    {"RandomNormal",
     "random_normal(seed_tensor, shape:sizes, mean:float=0.0, std:float>scale=1.0, "
     "dtype:dtype>dataType=float32) -> random_normal_out",
     R"(Samples of the normal distribution. The same seed gives the same samples.

Args:
    seed_tensor: (2,), uint32; vary it between uses, iterations and replicas.
    shape, dtype: of the result; dtype is floating.
    mean, std: of the distribution.

Raises:
    popart.popart_exception: the seed or the dtype does not fit.)",
     "z = ops.random_normal(seed, (2, 3), std=0.02)"},
}};

}  // namespace
}  // namespace ipu::popxl
