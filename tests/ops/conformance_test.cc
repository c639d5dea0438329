// Registry-driven: every op, whatever its family, goes through every check here. A missing part must be
// listed in known_gaps.txt, which may only get shorter. Kernels are compared in kernel_conformance_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "ir/structure.h"
#include "ir/text/text.h"
#include "ops/definition/decomposition.h"
#include "ops/definition/op_gradients.h"
#include "ops/verify.h"
#include "support/error.h"
#include "tests/ops/sample_graph.h"
#include "tests/source_tree.h"

namespace ipu::ops {
namespace {

class EveryOp : public testing::TestWithParam<std::string> {
 protected:
  const OpDef& def() const { return get_op(GetParam()); }
};

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpDef* def : all_ops()) names.push_back(def->name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Registry, EveryOp, testing::ValuesIn(op_names()),
                         [](const auto& info) { return test_name(info.param); });

TEST_P(EveryOp, IsDocumentedAndHasATypeRule) {
  EXPECT_FALSE(def().doc.empty());
  EXPECT_FALSE(def().family.empty());
  EXPECT_TRUE(static_cast<bool>(def().infer));
}

TEST_P(EveryOp, SampleSurvivesTheTextRoundTrip) {
  for (const Sample& sample : def().samples) {
    SampleGraph s = build_sample(def(), sample);
    const std::string text = ir::print(*s.module);
    EXPECT_EQ(ir::print(*ir::parse(text)), text);
  }
}

TEST_P(EveryOp, SampleIsLegal) {
  for (const Sample& sample : def().samples) {
    SampleGraph s = build_sample(def(), sample);
    const ir::Form form = def().modifies ? ir::Form::kAuthored : ir::Form::kFunctional;
    ops::verify(*s.module, form);
    EXPECT_EQ(ops::find_violations(*s.module, form).size(), 0u);
  }
}

TEST_P(EveryOp, ReferenceFillsTheShapesOfTheTypeRule) {
  if (!def().reference) GTEST_SKIP() << "no reference";
  for (size_t n = 0; n < def().samples.size(); ++n) {
    SampleGraph s = build_sample(def(), def().samples[n]);
    std::vector<ReferenceTensor> outputs =
        Interpreter(*s.module).run(*s.graph, sample_inputs(def().samples[n]));
    ASSERT_EQ(static_cast<int>(outputs.size()), s.op->result_count()) << name_of(def(), n);
    for (int i = 0; i < s.op->result_count(); ++i) {
      EXPECT_EQ(outputs[i].type.shape, s.op->result(i)->type().shape) << name_of(def(), n);
      EXPECT_EQ(outputs[i].type.dtype, s.op->result(i)->type().dtype) << name_of(def(), n);
      ASSERT_EQ(outputs[i].size(), s.op->result(i)->type().elements()) << name_of(def(), n);
      for (double value : outputs[i].values)
        EXPECT_EQ(value, std::isnan(value) ? value : round_to(outputs[i].type.dtype, value))
            << name_of(def(), n);
    }
  }
}

// --- gradients

struct Differentiated {
  SampleGraph sample;
  std::vector<int> operands;  // those that have a gradient, in order of the extra outputs
};

bool has_gradient(const OpDef& def) {
  return def.gradient_kind == GradientKind::kRule || def.gradient_kind == GradientKind::kDecomposition;
}

// The sample's graph with one more input per floating result (its upstream gradient) and the gradients as
// outputs.
// The gradient of a compound is differentiated in turn: second derivatives.
Differentiated differentiate(const OpDef& def, const Sample& sample) {
  Differentiated d{build_sample(def, sample), {}};
  ir::Graph* graph = d.sample.graph;
  std::vector<ir::Value*> upstream;
  for (int i = 0; i < d.sample.op->result_count(); ++i) {
    const ir::Type& type = d.sample.op->result(i)->type();
    upstream.push_back(is_floating_point(type.dtype) ? graph->add_input(type, "dy") : nullptr);
  }
  ir::Builder builder(graph);
  std::vector<bool> needs;
  for (int i = 0; i < d.sample.op->operand_count(); ++i) {
    const ir::Value* operand = d.sample.op->operand(i);
    needs.push_back(operand != nullptr && is_floating_point(operand->type().dtype));
  }
  const std::vector<ir::Value*> gradients =
      gradients_of_op(*d.sample.op, upstream, needs, builder, [](ir::Value* value) { return value; });
  for (int i = 0; i < d.sample.op->operand_count(); ++i)
    if (gradients[i] != nullptr) {
      d.operands.push_back(i);
      graph->append_output(gradients[i]);
    }
  return d;
}

// Sum of the floating results weighted by `weights`.
double weighted_sum(const std::vector<ReferenceTensor>& results,
                    const std::vector<ReferenceTensor>& weights) {
  double sum = 0;
  size_t w = 0;
  for (const ReferenceTensor& result : results) {
    if (!is_floating_point(result.type.dtype)) continue;
    for (size_t i = 0; i < result.values.size(); ++i) sum += result.values[i] * weights[w].values[i];
    ++w;
  }
  return sum;
}

bool is_f16(const Sample& sample) {
  return std::any_of(sample.operands.begin(), sample.operands.end(),
                     [](const auto& type) { return type && type->dtype == DType::kF16; });
}

// Central differences in f64 against `gradients[k]` of graph input `inputs_of[k]`. At most 24 elements per
// operand.
void compare_with_differences(const SampleGraph& forward, const std::vector<ReferenceTensor>& inputs,
                              const std::vector<ReferenceTensor>& weights, size_t input,
                              const ReferenceTensor& gradient, const std::string& what) {
  constexpr double kStep = 1e-5;
  const size_t count = inputs[input].values.size();
  for (size_t i = 0; i < count; i += std::max<size_t>(1, count / 24)) {
    double at[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<ReferenceTensor> moved = inputs;
      moved[input].values[i] += side == 0 ? -kStep : kStep;
      at[side] = weighted_sum(
          Interpreter(*forward.module, Arithmetic::kF64).run(*forward.graph, std::move(moved)), weights);
    }
    const double expected = (at[1] - at[0]) / (2 * kStep);
    // 1e-5: constants of gradient rules are f32 values, and differences lose 1e-10 to rounding.
    EXPECT_NEAR(gradient.values[i], expected, 1e-5 * (1.0 + std::fabs(expected)))
        << what << ", element " << i;
  }
}

TEST_P(EveryOp, GradientMatchesCentralDifferences) {
  if (!has_gradient(def()) || !def().reference) GTEST_SKIP() << "no gradient";
  if (def().name == "straight_through")
    GTEST_SKIP() << "is not its derivative on purpose: differentiate_test";
  if (def().name == "max_pool_gradient")
    GTEST_SKIP() << "jumps where elements are equal, as in its samples: test_gradients_in_forward";
  for (size_t n = 0; n < def().samples.size(); ++n) {
    const Sample& sample = def().samples[n];
    if (is_f16(sample)) continue;
    SampleGraph forward = build_sample(def(), sample);
    std::vector<ReferenceTensor> inputs = sample_inputs(sample), weights;
    std::mt19937_64 random(11);
    for (const ir::Value* output : forward.graph->outputs())
      if (is_floating_point(output->type().dtype))
        weights.push_back(random_tensor(output->type(), 0.5, 1.5, random));
    if (weights.empty()) continue;
    Differentiated d = differentiate(def(), sample);
    ops::verify(*d.sample.module, ir::Form::kFunctional);
    std::vector<ReferenceTensor> all = inputs;
    all.insert(all.end(), weights.begin(), weights.end());
    std::vector<ReferenceTensor> outputs =
        Interpreter(*d.sample.module, Arithmetic::kF64).run(*d.sample.graph, all);
    const size_t first = outputs.size() - d.operands.size();
    for (size_t k = 0; k < d.operands.size(); ++k) {
      size_t input = 0;  // absent operands are no inputs
      for (int i = 0; i < d.operands[k]; ++i) input += sample.operands[i].has_value();
      compare_with_differences(forward, inputs, weights, input, outputs[first + k],
                               name_of(def(), n) + ", operand " + std::to_string(d.operands[k]));
    }
  }
}

TEST_P(EveryOp, ZeroGradientIsZeroAlmostEverywhere) {
  if (def().gradient_kind != GradientKind::kZero || def().name == "detach")
    GTEST_SKIP() << "states no zero gradient";
  for (size_t n = 0; n < def().samples.size(); ++n) {
    const Sample& sample = def().samples[n];
    if (is_f16(sample)) continue;
    SampleGraph forward = build_sample(def(), sample);
    std::vector<ReferenceTensor> inputs = sample_inputs(sample), weights;
    for (const ir::Value* output : forward.graph->outputs())
      if (is_floating_point(output->type().dtype)) {
        weights.push_back(ReferenceTensor::zeros(output->type()));
        for (double& value : weights.back().values) value = 1.0;
      }
    for (size_t input = 0; input < inputs.size(); ++input)
      if (is_floating_point(inputs[input].type.dtype))
        compare_with_differences(forward, inputs, weights, input, ReferenceTensor::zeros(inputs[input].type),
                                 name_of(def(), n));
  }
}

// --- compounds, traits

TEST_P(EveryOp, DecompositionHasTheSameValue) {
  if (!def().decompose) GTEST_SKIP() << "no compound";
  if (def().reference_is_decomposition) GTEST_SKIP() << "its value is that of its parts: aten_cases_test";
  for (size_t n = 0; n < def().samples.size(); ++n) {
    SampleGraph whole = build_sample(def(), def().samples[n]), parts = build_sample(def(), def().samples[n]);
    std::vector<ir::Value*> replacements = def().decompose(*parts.op);
    ASSERT_EQ(static_cast<int>(replacements.size()), parts.op->result_count());
    for (int i = 0; i < parts.op->result_count(); ++i)
      parts.op->result(i)->replace_all_uses_with(replacements[i]);
    parts.graph->erase(parts.op);
    ops::verify(*parts.module, ir::Form::kFunctional);
    const std::vector<ReferenceTensor> inputs = sample_inputs(def().samples[n]);
    const std::vector<ReferenceTensor> expected =
        Interpreter(*whole.module, Arithmetic::kF64).run(*whole.graph, inputs);
    const std::vector<ReferenceTensor> actual =
        Interpreter(*parts.module, Arithmetic::kF64).run(*parts.graph, inputs);
    for (size_t i = 0; i < expected.size(); ++i)
      for (size_t e = 0; e < expected[i].values.size(); ++e)
        // Constants of decompositions are f32 values.
        EXPECT_NEAR(actual[i].values[e], expected[i].values[e], 1e-6 * (1 + std::fabs(expected[i].values[e])))
            << name_of(def(), n) << ", result " << i << ", element " << e;
  }
}

// What a compound becomes stands where it stood: same place, line and context.
TEST_P(EveryOp, PartsHaveTheSettingsAndTheLocationOfTheirCompound) {
  if (!def().has(kCompound) || def().name == "ipu_all_reduce") GTEST_SKIP() << "no compound on one IPU";
  const auto line = std::make_shared<ir::LocationData>(ir::LocationData{"model.py", 41, "layer3.norm"});
  for (const Sample& sample : def().samples) {
    SampleGraph s = build_sample(def(), sample);
    s.op->location = line;
    s.op->settings.ipu = 1;
    s.op->settings.stage = 2;
    s.op->settings.phase = 3;
    s.op->settings.context = ir::Context::kBackward;
    s.op->settings.recompute = ir::Recompute::kRecompute;
    const ir::Settings settings = s.op->settings;
    for (const ir::Op* part : build_parts(*s.op).ops) {
      EXPECT_EQ(part->location, line) << part->kind();
      EXPECT_EQ(part->settings, settings) << part->kind();
    }
  }
}

TEST_P(EveryOp, CommutativeOperandsMayBeExchanged) {
  if (!def().has(kCommutative)) GTEST_SKIP() << "not commutative";
  for (size_t n = 0; n < def().samples.size(); ++n) {
    SampleGraph s = build_sample(def(), def().samples[n]);
    SampleGraph t = build_sample(def(), def().samples[n]);
    t.op->set_operand(0, t.operands[1]);
    t.op->set_operand(1, t.operands[0]);
    const std::vector<ReferenceTensor> inputs = sample_inputs(def().samples[n]);
    EXPECT_EQ(Interpreter(*s.module).run(*s.graph, inputs)[0].values,
              Interpreter(*t.module).run(*t.graph, inputs)[0].values)
        << name_of(def(), n);
  }
}

// --- known gaps

std::set<std::string> listed_gaps() {
  std::ifstream file(source_tree() / "tests" / "ops" / "known_gaps.txt");
  std::set<std::string> gaps;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') gaps.insert(line);
  return gaps;
}

bool touches_floats(const Sample& sample) {
  return std::any_of(sample.operands.begin(), sample.operands.end(),
                     [](const auto& type) { return type && is_floating_point(type->dtype); });
}

TEST(KnownGaps, AreExactlyTheMissingParts) {
  std::set<std::string> gaps;
  for (const OpDef* def : all_ops()) {
    if (def->samples.empty()) gaps.insert(def->name + ": samples");
    if (!def->reference && !def->expand) gaps.insert(def->name + ": reference");
    if (def->gradient_kind == GradientKind::kNone &&
        std::any_of(def->samples.begin(), def->samples.end(), touches_floats))
      gaps.insert(def->name + ": gradient");
  }
  for (std::string& gap : missing_kernels()) gaps.insert(std::move(gap));
  const std::set<std::string> listed = listed_gaps();
  for (const std::string& gap : gaps)
    EXPECT_TRUE(listed.contains(gap))
        << "'" << gap << "' is missing. Add it; known_gaps.txt may only get shorter.";
  for (const std::string& gap : listed)
    EXPECT_TRUE(gaps.contains(gap)) << "'" << gap
                                    << "' is no longer a gap. Delete its line from known_gaps.txt.";
}

}  // namespace
}  // namespace ipu::ops
