// LAMB, against its equations written out in C++.
#include <cmath>

#include "support/error.h"
#include "tests/optimizers/rule_harness.h"

namespace ipu::optimizers {
namespace {

using namespace testing;

struct Case {
  Kind kind = Kind::kLamb;
  double decay = 0.0, max_weight_norm = 65500.0;
  bool streamed = false;
  int64_t accumulation = 1;
  double lr = 0.1, beta1 = 0.9, beta2 = 0.99, eps = 1e-3, loss_scaling = 8.0;
};

Spec spec_of(const Case& c) {
  Spec spec;
  spec.kind = c.kind;
  spec.accumulation = c.accumulation;
  spec.loss_scaling = {c.loss_scaling, !c.streamed};
  spec.groups.resize(1);
  spec.groups[0].hyper = {{"lr", {c.lr, !c.streamed}},
                          {"beta1", {c.beta1, !c.streamed}},
                          {"beta2", {c.beta2, !c.streamed}},
                          {"eps", {c.eps, !c.streamed}},
                          {"max_weight_norm", {c.max_weight_norm, !c.streamed}},
                          {"weight_decay", {c.decay, !c.streamed}}};
  spec.group_of = {{"w", 0}};
  return spec;
}

void check(const Case& c) {
  SCOPED_TRACE(::testing::Message() << "kind " << static_cast<int>(c.kind) << " decay " << c.decay
                                    << " bound " << c.max_weight_norm << " streamed " << c.streamed);
  const Spec spec = spec_of(c);
  RuleRun run(spec);
  Numbers w = run.weight(), m(kSize, 0.0), v(kSize, 0.0), u(kSize);
  std::mt19937 random(13);
  for (int t = 1; t <= 8; ++t) {
    Gradients gradients = random_gradients(random, spec);
    run.update(gradients.scaled);
    for (int i = 0; i < kSize; ++i) {
      const double g = gradients.mean[i];
      m[i] = c.beta1 * m[i] + (1 - c.beta1) * g;
      v[i] = c.beta2 * v[i] + (1 - c.beta2) * g * g;
      const bool corrected = c.kind == Kind::kLamb;
      const double m_hat = m[i] / (corrected ? 1 - std::pow(c.beta1, t) : 1.0);
      const double v_hat = v[i] / (corrected ? 1 - std::pow(c.beta2, t) : 1.0);
      u[i] = m_hat / (std::sqrt(v_hat) + c.eps) + c.decay * w[i];
    }
    const double factor = norm(w) > 0 && norm(u) > 0 ? std::min(norm(w), c.max_weight_norm) / norm(u) : 1.0;
    for (int i = 0; i < kSize; ++i) w[i] -= c.lr * factor * u[i];
    expect_near(run.weight(), w, "weight at update " + std::to_string(t));
  }
}

TEST(Lamb, EveryVariantFollowsItsEquations) {
  for (Kind kind : {Kind::kLamb, Kind::kLambNoBias})
    for (double decay : {0.0, 0.05})
      for (double bound : {65500.0, 0.5})
        for (bool streamed : {false, true})
          for (int64_t accumulation : {1, 3}) check({kind, decay, bound, streamed, accumulation});
}

TEST(Lamb, FactorIsOneWhenThereIsNoDirection) {
  Case c;
  RuleRun run(spec_of(c));
  const Numbers start = run.weight();
  run.update({Numbers(kSize, 0.0)});
  EXPECT_EQ(run.weight(), start);  // 0 / 0 would be NaN
}

}  // namespace
}  // namespace ipu::optimizers
