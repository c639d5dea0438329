// PopART's pattern switches and checkpoints over our pipelines.
#include "passes/popart_patterns.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "passes/pass.h"
#include "support/error.h"
#include "tests/thrown.h"
#include "tools/cases/text_case.h"

namespace ipu::passes {
namespace {

using namespace cases;

bool has(const std::vector<std::string>& steps, const std::string& step) {
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}
const std::vector<std::string>& default_steps() { return named_pipelines().at("default"); }

TEST(PopartPatterns, name_passes_of_the_default_pipeline_or_say_why_none_is_needed) {
  for (const Pattern& pattern : popart_patterns()) {
    EXPECT_FALSE(pattern.here.empty()) << pattern.name;
    if (!pattern.pass.empty()) {
      EXPECT_TRUE(has(default_steps(), std::string(pattern.pass))) << pattern.name;
    }
  }
}

TEST(PopartPatterns, levels_are_those_of_popart) {
  EXPECT_FALSE(PatternSelection(PatternLevel::kNoPatterns).is_enabled("MatMulOp"));
  EXPECT_TRUE(PatternSelection(PatternLevel::kMinimal).is_enabled("MatMulOp"));
  EXPECT_FALSE(PatternSelection(PatternLevel::kMinimal).is_enabled("OpToIdentity"));
  EXPECT_FALSE(PatternSelection(PatternLevel::kMinimal).is_enabled("InPlace"));
  EXPECT_TRUE(PatternSelection().is_enabled("OpToIdentity"));
  EXPECT_TRUE(PatternSelection().is_enabled("InPlace"));
  EXPECT_FALSE(PatternSelection().is_enabled("LSTMOp"));
  EXPECT_TRUE(PatternSelection(PatternLevel::kAll).is_enabled("LSTMOp"));
  const PatternSelection listed({"OpToIdentity", "InPlace"});
  EXPECT_TRUE(listed.is_enabled("OpToIdentity"));
  EXPECT_FALSE(listed.is_enabled("MatMulOp"));
}

TEST(PopartPatterns, a_pass_runs_while_any_of_its_patterns_is_on) {
  EXPECT_EQ(steps_under(default_steps(), PatternSelection()), default_steps());
  EXPECT_FALSE(has(steps_under(default_steps(), PatternSelection(PatternLevel::kMinimal)), "simplify"));
  PatternSelection selection;
  for (const char* name : {"OpToIdentity", "PostNRepl", "PreUniRepl"}) selection.enable(name, false);
  EXPECT_TRUE(has(steps_under(default_steps(), selection), "simplify"));
  selection.enable("TransposeToIdentityOrReshapePattern", false);
  EXPECT_FALSE(has(steps_under(default_steps(), selection), "simplify"));
  EXPECT_TRUE(has(steps_under(default_steps(), selection), "functionalize"));
}

TEST(PopartPatterns, mandatory_ones_stay_on_while_asserts_are_on) {
  PatternSelection selection;
  EXPECT_EQ(message_of([&] { selection.enable("MatMulOp", false); }),
            "mandatory pattern [IPU-E202]: 'MatMulOp' cannot be switched off.");
  selection.enable_runtime_asserts(false);
  selection.enable("MatMulOp", false);
  selection.check();
  selection.enable_runtime_asserts(true);
  EXPECT_EQ(message_of([&] { selection.check(); }), "mandatory patterns are off [IPU-E202]: MatMulOp.");
}

TEST(PopartPatterns, unknown_names_are_refused) {
  PatternSelection selection;
  EXPECT_EQ(message_of([&] { selection.enable("Inplace", true); }),
            "unknown pattern [IPU-E202]: 'Inplace' is no pattern of PopART; did you mean 'InPlace'?");
  EXPECT_EQ(message_of([&] { selection.is_enabled("Faster"); }),
            "unknown pattern [IPU-E202]: 'Faster' is no pattern of PopART.");
  EXPECT_EQ(message_of([] { selection_of("Most"); }),
            "pattern level not understood [IPU-E202]: expected NoPatterns, Minimal, Default, All or only.");
  EXPECT_EQ(message_of([] { selection_of("Default,OpToIdentity"); }),
            "pattern switch not understood [IPU-E202]: 'OpToIdentity' is not NAME=on or NAME=off.");
}

TEST(PopartPatterns, are_an_option_of_ipu_opt) {
  EXPECT_EQ(steps_of("--patterns=Default"), default_steps());
  EXPECT_FALSE(has(steps_of("--patterns=Minimal"), "simplify"));
  EXPECT_TRUE(has(steps_of("--patterns=Minimal,PreUniRepl=on"), "simplify"));
  EXPECT_NE(message_of([] { steps_of("--patterns=only,OpToIdentity"); }).find("mandatory patterns are off"),
            std::string::npos);
}

TEST(Checkpoints, are_those_of_popart_in_order) {
  std::vector<std::string> found;
  for (const std::string& step : default_steps())
    if (step.starts_with("@")) found.push_back(step);
  EXPECT_EQ(found,
            (std::vector<std::string>{"@Fwd0", "@Fwd1", "@Bwd0", "@PreAlias", "@MainLoops", "@Final"}));
}

TEST(Checkpoints, take_transforms_of_the_program) {
  const std::vector<std::string> steps = steps_with(default_steps(), {{"PreAlias", {"cse", "dce"}}});
  const auto at = std::find(steps.begin(), steps.end(), "@PreAlias");
  ASSERT_LT(at + 2, steps.end());
  EXPECT_EQ(at[1], "cse");
  EXPECT_EQ(at[2], "dce");
  EXPECT_EQ(steps.size(), default_steps().size() + 2);
  EXPECT_EQ(message_of([] {
              steps_with(default_steps(), {{"Fwd7", {}}});
            }),
            "unknown checkpoint [IPU-E202]: 'Fwd7'; the pipeline has Fwd0, Fwd1, Bwd0, PreAlias, MainLoops, "
            "Final.");
  EXPECT_EQ(message_of([] {
              steps_with(default_steps(), {{"Fwd0", {"no-pass"}}});
            }),
            "unknown pass 'no-pass' [IPU-E202]: ipu-opt --list names the passes.");
}

}  // namespace
}  // namespace ipu::passes
