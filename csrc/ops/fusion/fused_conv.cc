// fused_conv: a convolution with what alone reads it, made by the pass fuse-into-convolutions. Its addend lies channels last.
#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "ops/convolution/convolution_work.h"
#include "ops/convolution/window.h"
#include "ops/definition/build.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/fusion/activation.h"

namespace ipu::ops {
namespace {

enum Operand : int { kX, kWeight, kScale, kBias, kAddend };

ir::Type type_of(const InferContext& c) {
  require_activation(c);
  InferContext convolution{"conv", {c.operands[kX], c.operands[kWeight]}, c.attributes};
  ir::Type y = get_op("conv").infer(convolution).front();
  for (const int i : {kScale, kBias})
    if (c.has(i) && c.operand(i).shape != Shape{y.shape[1]})
      shape_error(fmt::format("the {} {} must have one element per output channel, {}",
                              i == kScale ? "scale" : "bias", to_string(c.operand(i).shape), y.shape[1]));
  if (c.has(kAddend) && c.operand(kAddend).shape != y.shape)
    shape_error(fmt::format("the addend {} must have the shape {} of the result",
                            to_string(c.operand(kAddend).shape), to_string(y.shape)));
  return y;
}

void reference(ReferenceCall& call) {
  ReferenceTensor& y = call.result();
  ReferenceCall convolution{call.attributes, {call.operands[kX], call.operands[kWeight]}, {&y}};
  get_op("conv").reference(convolution);
  const Expr end = activated(call.attributes.text("activation", "none"), Expr::input(0, DType::kF32));
  const int64_t channels = y.type.shape[1];
  const int64_t pixels = element_count(std::span(y.type.shape).subspan(2));
  for (size_t i = 0; i < y.values.size(); ++i) {
    const auto channel = static_cast<size_t>(static_cast<int64_t>(i) / pixels % channels);
    double value = y.values[i];
    if (call.has(kScale)) value *= call.operand(kScale).values[channel];
    if (call.has(kBias)) value += call.operand(kBias).values[channel];
    if (call.has(kAddend)) value += call.operand(kAddend).values[i];
    y.values[i] = evaluate(end, {&value, 1});
  }
}

std::vector<target::Work> fused_conv_work(const ir::Op& op) {
  std::vector<target::Work> work = forward_convolution_work(op);
  for (const auto& [operand, function] : {std::pair{kScale, "Mul"}, {kBias, "Add"}})
    if (operand < op.operand_count() && op.operand(operand) != nullptr)
      work.push_back(pass_over(op.result()->type(), {function}, 2));
  add_activation_work(op, op.operand_count() > kAddend ? op.operand(kAddend) : nullptr, &work);
  return work;
}

Attributes window_of(Shape strides, Shape low, Shape high, int64_t groups, std::string activation) {
  const Shape ones(strides.size(), 1);
  return {{"strides", strides}, {"padding_low", low}, {"padding_high", high},
          {"dilations", ones},  {"groups", groups},   {"activation", std::move(activation)}};
}

const OpRegistration fused_conv =
    define_op("fused_conv", "fusion")
        .doc(
            "activation(convolution of x with weight, as conv, times scale [O], plus bias [O], plus addend "
            "of the result's shape). activation is none, relu or gelu.")
        .operand("x", bit(DType::kF32))
        .operand("weight", bit(DType::kF32))
        .optional_operand("scale", bit(DType::kF32))
        .optional_operand("bias", bit(DType::kF32))
        .optional_operand("addend", bit(DType::kF32))
        .attribute("strides")
        .attribute("padding_low")
        .attribute("padding_high")
        .attribute("dilations")
        .attribute("groups", int64_t{1})
        .attribute("activation", "none")
        .result("y")
        .traits(kConvolution | kExpensive)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{type_of(c)}; })
        .gradient_refused("it is made after gradients are")
        .reference(reference)
        .kernel("fused_conv")
        .layouts([](const ir::Op& op) {
          return LayoutWishes{{LayoutWish::kChannelsLast, weight_wish(op), LayoutWish::kPlain,
                               LayoutWish::kPlain, LayoutWish::kChannelsLast},
                              {LayoutWish::kChannelsLast}};
        })
        .work(fused_conv_work)
        // Without addends, which lie channels last, as no input of a program does.
        .samples(
            {{{f32({2, 3, 5, 4}), f32({2, 3, 3, 2}), f32({2}), f32({2})},
              window_of({1, 1}, {0, 0}, {0, 0}, 1, "relu")},
             {{f32({1, 4, 6, 5}), f32({6, 2, 2, 3}), std::nullopt, f32({6})},
              window_of({2, 1}, {1, 1}, {1, 0}, 2, "gelu")},
             {{f32({2, 2, 4, 4}), f32({2, 1, 3, 3}), f32({2})}, window_of({1, 1}, {1, 1}, {1, 1}, 2, "relu")},
             {{f32({2, 2, 7}), f32({3, 2, 3}), f32({3})}, window_of({2}, {1}, {2}, 1, "none")}});

}  // namespace
}  // namespace ipu::ops
