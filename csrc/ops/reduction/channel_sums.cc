// channel_moments and channel_gradient_sums: what normalisations need of the channels of a batch, read once.
#include <fmt/core.h>

#include "ops/definition/sample_types.h"
#include "ops/definition/work.h"
#include "ops/normalization/norm_support.h"

namespace ipu::ops {
namespace {

// The batch and what follows the channels.
std::vector<int64_t> statistic_dims(const Shape& x) {
  std::vector<int64_t> dims = dims_from(2, x.size());
  dims.insert(dims.begin(), 0);
  return dims;
}

const OpRegistration channel_moments =
    define_op("channel_moments", "reduction")
        .doc(
            "Mean and biased variance of each channel of x [N, C, ...], of size 1 in the other dimensions; of "
            "halves in f32.")
        .operand("x", kAnyFloat)
        .result("mean")
        .result("variance")
        .infer([](const InferContext& c) {
          channels_of(c);  // throws where there are none
          const ir::Type statistic = statistic_type(c.operand(0), statistic_dims(c.operand(0).shape));
          return std::vector<ir::Type>{statistic, statistic};
        })
        .compound([](Composer& c) {
          ir::Value* x = widened(c, c.operand(0));
          const Statistics s = statistics(c, x, statistic_dims(x->type().shape));
          return std::vector<ir::Value*>{s.mean, s.variance};
        })
        .kernel("channel_moments")
        .work([](const ir::Op& op) {
          return std::vector{reduction_of(op.operand(0)->type(), op.result()->type().elements(), 2)};
        })
        .layouts({{LayoutWish::kAsItComes}, {}})
        .gradient_by_decomposition()
        .samples({{{f32({4, 3, 2})}, {}},
                  {{f32({5, 70})}, {}},
                  {{f32({3, 2, 5, 7})}, {}},
                  {{f16({2, 4, 3})}, {}}});

const OpRegistration channel_gradient_sums =
    define_op("channel_gradient_sums", "reduction")
        .doc(
            "Sums over each channel of dy [N, C, ...] and of dy * (x - mean) * rstd, of size 1 in the other "
            "dimensions; of halves in f32.")
        .operand("dy", kAnyFloat)
        .operand("x", kAnyFloat)
        .operand("mean", kAnyFloat)
        .operand("rstd", kAnyFloat)
        .result("sum")
        .result("product")
        .infer([](const InferContext& c) {
          channels_of(c);
          const ir::Type &dy = c.operand(0), &x = c.operand(1);
          require_same_dtype(c, 0, 1);
          if (x.shape != dy.shape)
            shape_error(
                fmt::format("x {} and dy {} must have one shape", to_string(x.shape), to_string(dy.shape)));
          const ir::Type statistic = statistic_type(dy, statistic_dims(dy.shape));
          for (int i : {2, 3})
            if (c.operand(i).shape != statistic.shape || c.operand(i).dtype != statistic.dtype)
              shape_error(fmt::format("{} is {}, for dy {} it must be {}", i == 2 ? "mean" : "rstd",
                                      ir::to_string(c.operand(i)), ir::to_string(dy),
                                      ir::to_string(statistic)));
          return std::vector<ir::Type>{statistic, statistic};
        })
        .compound([](Composer& c) {
          ir::Value *dy = widened(c, c.operand(0)), *x = widened(c, c.operand(1));
          const std::vector<int64_t> dims = statistic_dims(dy->type().shape);
          ir::Value* normalized = c.mul(c.sub(x, c.operand(2)), c.operand(3));
          return std::vector<ir::Value*>{c.reduce("reduce_sum", dy, dims, true),
                                         c.reduce("reduce_sum", c.mul(dy, normalized), dims, true)};
        })
        .kernel("channel_gradient_sums")
        .work([](const ir::Op& op) -> std::vector<target::Work> {
          const ir::Type& dy = op.operand(0)->type();
          return {pass_over(dy, {"Sub", "Mul", "Mul"}, 2),
                  reduction_of(dy, op.result()->type().elements(), 2)};
        })
        .layouts({{LayoutWish::kAsItComes, LayoutWish::kAsItComes}, {}})
        .gradient_by_decomposition()
        .samples({{{f32({4, 3, 2}), f32({4, 3, 2}), f32({1, 3, 1}), f32({1, 3, 1})}, {}},
                  {{f32({5, 70}), f32({5, 70}), f32({1, 70}), f32({1, 70})}, {}},
                  {{f16({2, 4, 3}), f16({2, 4, 3}), f32({1, 4, 1}), f32({1, 4, 1})}, {}}});

}  // namespace
}  // namespace ipu::ops
