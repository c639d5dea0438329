// Norms with channels in dimension 1. Attributes: epsilon; of GroupNormalization num_groups.
#include "frontends/popxl/op_kind.h"

namespace ipu::popxl {
namespace {

// Inputs: x [N, C, ...], then scale, bias, mean and variance, each [C]. The statistics a gradient would need do not
// exist, so it is refused.
void batch_norm(LowerCall& c) {
  if (c.shape(0).size() < 3) c.refuse("the input must have three dimensions or more");
  for (int i = 1; i < 5; ++i)
    if (c.shape(i) != Shape{c.shape(0)[1]})
      c.refuse("scale, bias, mean and variance must have one element for each channel");
  c.set_output(0,
               c.build("batch_norm_inference", {c.input(0), c.input(3), c.input(4), c.input(1), c.input(2)},
                       {{"eps", c.attributes().real("epsilon", 1e-5)}}));
}

Shape statistics_shape(ir::Op& norm) { return norm.result(1)->type().shape; }

// Inputs: x [N, C, ...], scale [C], bias [C]. Outputs: y, and mean and 1 / deviation [N * num_groups].
void group_norm(LowerCall& c) {
  if (c.shape(0).size() < 2) c.refuse("the input must have two dimensions or more");
  ir::Op* norm = c.build_op(
      "group_norm", {c.input(0), c.input(1), c.input(2)},
      {{"groups", c.attributes().integer("num_groups")}, {"eps", c.attributes().real("epsilon", 1e-5)}});
  const int64_t count = element_count(statistics_shape(*norm));
  c.set_output(0, norm->result(0));
  c.set_output(1, c.reshape(norm->result(1), {count}));
  c.set_output(2, c.reshape(norm->result(2), {count}));
}

// The bias is no part of its own gradient, but an operand of the IR's op: zeros stand for it.
void group_norm_gradient(LowerCall& c) {
  ir::Value *x = c.forward_input(0), *scale = c.forward_input(1);
  const int64_t groups = c.attributes().integer("num_groups");
  const Shape statistics{x->type().shape[0], groups, 1};
  ir::Value* bias = c.builder().splat(scale->type(), 0.0);
  const ir::Op* gradient =
      c.build_op("group_norm_gradient",
                 {x, scale, bias, c.reshape(c.forward_output(1), statistics),
                  c.reshape(c.forward_output(2), statistics), c.upstream(0), nullptr, nullptr},
                 {{"groups", groups},
                  {"eps", c.attributes().real("epsilon", 1e-5)},
                  {"wants", std::vector<int64_t>{0, 1, 2}}});
  for (int i = 0; i < 3; ++i) c.set_gradient(i, gradient->result(i));
}

const KindRegistration batch_normalization = define_kind("BatchNormalization")
                                                 .class_name("BatchNormOp")
                                                 .id("ai.onnx", 9)
                                                 .refuses_gradient()
                                                 .lower(batch_norm);
const KindRegistration group_normalization =
    define_kind("GroupNormalization")
        .class_name("GroupNormOp")
        .graphcore()
        .gradient_row({{0, 1, 2}, "GroupNormalizationGrad", {in(0), in(1), out(1), out(2)}})
        .lower(group_norm)
        .lower_gradient(group_norm_gradient);

}  // namespace
}  // namespace ipu::popxl
