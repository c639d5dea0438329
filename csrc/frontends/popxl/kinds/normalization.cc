// Norms with channels in dimension 1. Attributes: epsilon; of GroupNormalization num_groups.
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

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

const CreatorRegistration normalization_creators = {{
    {"BatchNormOp",
     "opid _epsilon>epsilon:real _momentum>momentum:real _spatial>spatial:bool "
     "_unbiased_variance>unbiased_variance:bool settings"},
    {"GroupNormOp", "opid num_groups_>num_groups:int epsilon_>epsilon:real settings"},
}};
const FunctionRegistration normalization_functions = {{
    {"GroupNormalization",
     "group_norm(t, weight, bias, num_groups:whole, eps:float>epsilon=1e-5) -> group_norm_out, "
     "group_norm_mean!, group_norm_inv_std_dev!",
     R"(Normalises each sample over each group of channels and all later axes, with the biased variance; then weight and
bias for each channel.

Args:
    t: (N, C, ...), floating.
    weight, bias: (C,).
    num_groups: number of groups of neighbouring channels.
    eps: added to the variance.

Returns:
    As `t`. The op has outputs for mean and 1 / deviation, (N * num_groups,), as well.

Raises:
    ValueError: the operands are on different IPUs or tile sets.
    popart.popart_exception: shapes or dtypes do not fit.)",
     "y = ops.group_norm(x, weight, bias, num_groups=4)"},
    {"GroupNormalization",
     "layer_norm(t, weight, bias, eps:float>epsilon=1e-5) -> group_norm_out, group_norm_mean!, "
     "group_norm_inv_std_dev!; num_groups=1",
     R"(`group_norm` with one group: over all axes behind the first. To normalise the last axis of more than two, flatten
the others.

Args:
    t: (N, C, ...), floating.
    weight, bias: (C,).
    eps: added to the variance.

Returns:
    As `t`.

Raises:
    ValueError, popart.popart_exception: as of `group_norm`.)",
     "y = ops.layer_norm(x, weight, bias)"},
    {"BatchNormalization",
     "batch_norm_inference(t, scale, bias, mean, var, epsilon:float=1e-5, "
     "momentum:float=0.9) -> batch_norm_out",
     R"(scale * (t - mean) / sqrt(var + epsilon) + bias for each channel, with statistics that are given. It has no
gradient.

Args:
    t: (N, C, d1, ...), floating.
    scale, bias, mean, var: (C,).
    epsilon: added to the variance.
    momentum: unused.

Returns:
    As `t`.

Raises:
    ValueError: the operands are on different IPUs or tile sets.
    popart.popart_exception: shapes or dtypes do not fit.)",
     "y = ops.batch_norm_inference(x, scale, bias, mean, var)"},
}};

}  // namespace
}  // namespace ipu::popxl
