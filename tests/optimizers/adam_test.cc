// Adam and AdamW, against their equations written out in C++.
#include <cmath>

#include "support/error.h"
#include "tests/optimizers/rule_harness.h"

namespace ipu::optimizers {
namespace {

using namespace testing;

struct Case {
  Kind kind = Kind::kAdam;
  double decay = 0.0, eps = 1e-3;
  bool streamed = false;
  int64_t accumulation = 1;
  double loss_scaling = 1.0, lr = 0.1, beta1 = 0.9, beta2 = 0.999;
  double clip = std::numeric_limits<double>::infinity();
};

Spec spec_of(const Case& c) {
  Spec spec;
  spec.kind = c.kind;
  spec.accumulation = c.accumulation;
  spec.loss_scaling = {c.loss_scaling, !c.streamed};
  spec.max_grad_norm = c.clip;
  spec.groups.resize(1);
  spec.groups[0].hyper = {{"lr", {c.lr, !c.streamed}},
                          {"beta1", {c.beta1, !c.streamed}},
                          {"beta2", {c.beta2, !c.streamed}},
                          {"eps", {c.eps, !c.streamed}},
                          {"weight_decay", {c.decay, !c.streamed}}};
  spec.group_of = {{"w", 0}};
  return spec;
}

void check(const Case& c) {
  SCOPED_TRACE(::testing::Message() << "kind " << static_cast<int>(c.kind) << " decay " << c.decay
                                    << " streamed " << c.streamed << " GA " << c.accumulation << " beta2 "
                                    << c.beta2);
  const Spec spec = spec_of(c);
  RuleRun run(spec);
  Numbers w = run.weight(), m(kSize, 0.0), v(kSize, 0.0);
  std::mt19937 random(7);
  for (int t = 1; t <= 8; ++t) {
    Gradients gradients = random_gradients(random, spec);
    run.update(gradients.scaled);
    const double factor = std::min(1.0, c.clip / norm(gradients.mean));
    for (int i = 0; i < kSize; ++i) {
      const double g = gradients.mean[i] * factor + (c.kind == Kind::kAdam ? c.decay * w[i] : 0.0);
      m[i] = c.beta1 * m[i] + (1 - c.beta1) * g;
      v[i] = c.beta2 * v[i] + (1 - c.beta2) * g * g;
      const bool corrected = c.kind != Kind::kAdamWNoBias;
      const double m_hat = m[i] / (corrected ? 1 - std::pow(c.beta1, t) : 1.0);
      const double v_hat = v[i] / (corrected ? 1 - std::pow(c.beta2, t) : 1.0);
      double u = m_hat / (std::sqrt(v_hat) + c.eps);
      if (c.kind != Kind::kAdam) u += c.decay * w[i];
      w[i] -= c.lr * u;
    }
    const std::string when = " at update " + std::to_string(t);
    expect_near(run.weight(), w, "weight" + when);
    expect_near(run.state("Accl1"), m, "m" + when);
    expect_near(run.state("Accl2"), v, "v" + when);
  }
}

TEST(Adam, EveryVariantFollowsItsEquations) {
  for (Kind kind : {Kind::kAdam, Kind::kAdamW, Kind::kAdamWNoBias})
    for (double decay : {0.0, 0.05})
      for (bool streamed : {false, true})
        for (int64_t accumulation : {1, 3}) check({kind, decay, 1e-3, streamed, accumulation, 8.0});
}

TEST(Adam, ExtremeHyperParametersKeepTheirDigits) {
  for (bool streamed : {false, true})
    for (double beta1 : {0.0, 0.9})
      for (double beta2 : {0.0, 0.5, 0.99999})
        check({Kind::kAdam, 0.0, 1e-8, streamed, 1, 1.0, 0.1, beta1, beta2});
}

TEST(Adam, GradientsAreClippedBeforeTheyEnterTheMoments) {
  for (Kind kind : {Kind::kAdam, Kind::kAdamW})
    for (double clip : {0.25, 1.0, 100.0})
      for (bool streamed : {false, true}) check({kind, 0.05, 1e-3, streamed, 2, 8.0, 0.1, 0.9, 0.99, clip});
}

TEST(Adam, StateIsNamedByTheContract) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(RuleRun(spec_of({Kind::kAdam})).state_suffixes(), (Names{"Accl1", "Accl2", "Step"}));
  EXPECT_EQ(RuleRun(spec_of({Kind::kAdamWNoBias})).state_suffixes(), (Names{"Accl1", "Accl2"}));
  Spec spec = spec_of({});
  spec.velocity_dtype = DType::kF16;
  const std::vector<StateTensor> state = state_of(spec, 0);
  EXPECT_EQ(state[0].dtype, DType::kF16);
  EXPECT_EQ(state[1].dtype, DType::kF32);
  EXPECT_TRUE(state[2].is_scalar);
}

TEST(Adam, StepIsCountedOncePerUpdate) {
  const Spec spec = spec_of({Kind::kAdam, 0.0, 1e-3, false, 4});
  RuleRun run(spec);
  std::mt19937 random(1);
  for (int t = 1; t <= 3; ++t) {
    run.update(random_gradients(random, spec).scaled);
    EXPECT_EQ(run.state("Step"), Numbers{static_cast<double>(t)});
  }
}

TEST(Adam, NothingButElementwiseOpsAndBiasCorrectionOfOneScalar) {
  RuleRun run(spec_of({Kind::kAdamW, 0.05, 1e-8, true}));
  int tensor_ops = 0;
  for (const auto& op : run.graph().ops()) {
    EXPECT_TRUE(op->is("constant") || ops::definition(*op)->has(ops::kElementwise)) << op->kind();
    if (op->is("constant") || op->result()->type().shape.empty()) continue;
    EXPECT_FALSE(op->is("expm1") || op->is("pow")) << "computed for every element";
    ++tensor_ops;
  }
  EXPECT_EQ(tensor_ops, 15);  // unscale 1, m 3, v 4, √v + ε 2, direction 2, decay 2, weight 1
}

TEST(Adam, StreamedValuesMayChangeBetweenUpdates) {
  Spec spec = spec_of({Kind::kAdam, 0.0, 1e-3, true});
  RuleRun run(spec);
  std::mt19937 random(2);
  run.update(random_gradients(random, spec).scaled);
  const Numbers before = run.weight();
  spec.groups[0].hyper["lr"].value = 0.0;
  run.set_spec(spec);
  run.update(random_gradients(random, spec).scaled);
  EXPECT_EQ(run.weight(), before);
  EXPECT_EQ(run.state("Step"), Numbers{2.0});
}

TEST(Adam, GroupsWithoutAHyperParameterAreRefused) {
  Spec spec = spec_of({});
  spec.groups[0].hyper.erase("beta2");
  try {
    check_spec(spec);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("group 0 has no beta2."), std::string::npos) << error.message();
  }
}

TEST(Adam, ChangedConstantsAreRefused) {
  const Spec compiled = spec_of({});
  auto refused = [&](const Spec& next) -> std::string {
    try {
      check_compatible(compiled, next);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  Spec next = compiled;
  next.second_dtype = DType::kF16;
  EXPECT_NE(refused(next).find("second_order_momentum_accum_type was compiled as f32 and is now f16"),
            std::string::npos);
  next = compiled;
  next.max_grad_norm = 1.0;
  EXPECT_NE(refused(next).find("max_grad_norm was compiled as inf and is now 1.0"), std::string::npos);
  next = compiled;
  next.groups[0].hyper["eps"].value = 1e-8;
  EXPECT_NE(refused(next).find("eps of group 0 was compiled as the constant 0.001 and is now 1e-08"),
            std::string::npos);
  next = compiled;
  next.kind = Kind::kAdamW;
  EXPECT_NE(refused(next).find("compiled for Adam and got AdamW"), std::string::npos);
}

TEST(Clipping, BoundsThatCannotBeMeantAreRefused) {
  for (double bound : {std::nan(""), -1.0}) {
    Spec spec = spec_of({});
    spec.max_grad_norm = bound;
    EXPECT_THROW(check_spec(spec), Error);
  }
}

}  // namespace
}  // namespace ipu::optimizers
