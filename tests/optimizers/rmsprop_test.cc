// RMSprop in all its variants, against its equations written out in C++.
#include <cmath>

#include "support/error.h"
#include "tests/optimizers/rule_harness.h"

namespace ipu::optimizers {
namespace {

using namespace testing;

struct Case {
  bool centred = false, tf_variant = false;
  double momentum = 0.0, decay = 0.0;
  bool streamed = false;
  int64_t accumulation = 1;
  double lr = 0.05, alpha = 0.9, eps = 1e-3, loss_scaling = 4.0;
};

Spec spec_of(const Case& c) {
  Spec spec;
  spec.kind = c.centred ? Kind::kRmsPropCentred : Kind::kRmsProp;
  spec.tf_variant = c.tf_variant;
  spec.accumulation = c.accumulation;
  spec.loss_scaling = {c.loss_scaling, !c.streamed};
  spec.groups.resize(1);
  spec.groups[0].hyper = {{"lr", {c.lr, !c.streamed}},
                          {"alpha", {c.alpha, !c.streamed}},
                          {"eps", {c.eps, !c.streamed}},
                          {"momentum", {c.momentum, !c.streamed || c.momentum == 0}},
                          {"weight_decay", {c.decay, !c.streamed}}};
  spec.group_of = {{"w", 0}};
  return spec;
}

void check(const Case& c) {
  SCOPED_TRACE(::testing::Message() << "centred " << c.centred << " tf " << c.tf_variant << " momentum "
                                    << c.momentum << " decay " << c.decay << " streamed " << c.streamed);
  const Spec spec = spec_of(c);
  RuleRun run(spec);
  Numbers w = run.weight(), s(kSize, c.tf_variant ? 1.0 : 0.0), q(kSize, 0.0), b(kSize, 0.0);
  std::mt19937 random(11);
  for (int t = 1; t <= 8; ++t) {
    Gradients gradients = random_gradients(random, spec);
    run.update(gradients.scaled);
    for (int i = 0; i < kSize; ++i) {
      const double g = gradients.mean[i] + c.decay * w[i];
      s[i] = c.alpha * s[i] + (1 - c.alpha) * g * g;
      q[i] = c.alpha * q[i] + (1 - c.alpha) * g;
      const double d = c.centred ? s[i] - q[i] * q[i] : s[i];
      const double x = c.tf_variant ? g / std::sqrt(d + c.eps) : g / (std::sqrt(d) + c.eps);
      if (c.momentum == 0) {
        w[i] -= c.lr * x;
      } else if (c.tf_variant) {
        b[i] = c.momentum * b[i] + c.lr * x;
        w[i] -= b[i];
      } else {
        b[i] = c.momentum * b[i] + x;
        w[i] -= c.lr * b[i];
      }
    }
    expect_near(run.weight(), w, "weight at update " + std::to_string(t));
    expect_near(run.state("Accl1"), s, "mean square");
    if (c.centred) expect_near(run.state("Accl2"), q, "mean");
    if (c.momentum != 0) expect_near(run.state("Accl3"), b, "momentum");
  }
}

TEST(RmsProp, EveryVariantFollowsItsEquations) {
  for (bool centred : {false, true})
    for (bool tf_variant : {false, true})
      for (double momentum : {0.0, 0.9})
        for (double decay : {0.0, 0.1})
          for (bool streamed : {false, true})
            for (int64_t accumulation : {1, 3})
              check({centred, tf_variant, momentum, decay, streamed, accumulation});
}

TEST(RmsProp, StateIsNamedByTheContract) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(RuleRun(spec_of({})).state_suffixes(), (Names{"Accl1"}));
  EXPECT_EQ(RuleRun(spec_of({true})).state_suffixes(), (Names{"Accl1", "Accl2"}));
  EXPECT_EQ(RuleRun(spec_of({false, false, 0.9})).state_suffixes(), (Names{"Accl1", "Accl3"}));
  EXPECT_EQ(RuleRun(spec_of({true, true, 0.9})).state_suffixes(), (Names{"Accl1", "Accl2", "Accl3"}));
  EXPECT_EQ(state_of(spec_of({false, true}), 0)[0].initial, 1.0);
}

// The mean square of a constant gradient is the square of its mean; rounding may push it below.
TEST(RmsProp, VarianceOfAConstantGradientDoesNotBecomeNegative) {
  Case c{true};
  c.loss_scaling = 1.0;
  c.eps = 1e-8;
  RuleRun run(spec_of(c));
  for (int t = 0; t < 200; ++t) run.update({Numbers(kSize, 0.1)});
  for (double w : run.weight()) EXPECT_TRUE(std::isfinite(w));
}

}  // namespace
}  // namespace ipu::optimizers
