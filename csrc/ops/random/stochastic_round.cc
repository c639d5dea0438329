// stochastic_round: the rounding of f16 results where Precision.enableStochasticRounding asks for it; the pass
// `round-at-random` inserts it (docs/types.md).
#include "kernels/random/stochastic_half.h"
#include "ops/random/random_support.h"
#include "support/half.h"

namespace ipu::ops {
namespace {

const ir::Type kSeed{DType::kU32, {2}};

const OpRegistration stochastic_round =
    define_op("stochastic_round", "random")
        .doc(
            "x as f16, rounded to one of its two neighbours: to the farther one from 0 with the probability of the "
            "distance to the nearer one.")
        .operand("x", bit(DType::kF32))
        .operand("seed", bit(DType::kU32))
        .attribute("stream_id", int64_t{0})
        .result("y")
        .traits(kRandom)
        .infer([](const InferContext& c) {
          require_seed(c, 1);
          return std::vector<ir::Type>{{DType::kF16, c.operand(0).shape}};
        })
        .gradient_refused("it is inserted after differentiation")
        .reference([](ReferenceCall& call) {
          const std::vector<double>& x = call.operand(0).values;
          std::vector<uint32_t> bits(x.size());
          if (x.empty()) return;
          kernels::random_fill().bits(stream_of(call, 1), 0, static_cast<int64_t>(bits.size()), bits.data());
          for (size_t i = 0; i < x.size(); ++i)
            call.result().values[i] =
                half_to_float(kernels::stochastic_half(static_cast<float>(x[i]), bits[i]));
        })
        .work(no_work())  // the machine rounds so where it computes
        .samples({{{ir::Type{DType::kF32, {3, 5}}, kSeed}, {}, -1, 1, {{1, {0, 1e9}}}},
                  {{ir::Type{DType::kF32, {5003}}, kSeed},
                   {{"stream_id", int64_t{3}}},
                   -1e-4,
                   1e-4,
                   {{1, {0, 1e9}}}},
                  {{ir::Type{DType::kF32, {0}}, kSeed}, {}, -1, 1, {{1, {0, 1e9}}}}});

}  // namespace
}  // namespace ipu::ops
