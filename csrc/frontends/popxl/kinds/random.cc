// Random numbers of a seed, u32 [2]. The same seed gives the same numbers; users vary it.
#include <fmt/core.h>

#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"

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

}  // namespace
}  // namespace ipu::popxl
