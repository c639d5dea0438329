// What text cannot say about passes: numbers before and after, pipelines, dumps, the checker of text tests
// itself.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ir/text/text.h"
#include "ops/interpreter/interpreter.h"
#include "ops/verify.h"
#include "passes/pass.h"
#include "support/error.h"
#include "tests/source_tree.h"
#include "tests/thrown.h"
#include "tools/cases/text_case.h"

namespace ipu::passes {
namespace {

using namespace cases;

std::vector<std::vector<double>> run_first_graph(const ir::Module& module, size_t outputs) {
  const ir::Graph& graph = *module.graphs().front();
  std::vector<ops::ReferenceTensor> inputs;
  for (const ir::Value* input : graph.inputs()) {
    ops::ReferenceTensor tensor = ops::ReferenceTensor::zeros(input->type());
    for (size_t i = 0; i < tensor.values.size(); ++i)
      tensor.values[i] =
          input->type().dtype == DType::kBool ? 1.0 : static_cast<double>(i) * 0.5 + input->index() - 1.0;
    inputs.push_back(tensor);
  }
  std::vector<std::vector<double>> values;
  for (const ops::ReferenceTensor& tensor : ops::Interpreter(module).run(graph, inputs))
    values.push_back(tensor.values);
  values.resize(outputs);
  return values;
}

// Each case of the pass tests computes the same numbers before and after, as far as the interpreter can run
// it.
class PassesKeepNumbers : public testing::TestWithParam<const char*> {};
TEST_P(PassesKeepNumbers, that_each_case_computed_before) {
  std::filesystem::path path = source_tree() / "tests" / "passes" / (std::string(GetParam()) + ".ir");
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::string text(std::istreambuf_iterator<char>(file), {});
  int compared = 0;
  for (const TextCase& test : split_cases(text, path.string())) {
    std::unique_ptr<ir::Module> module = ir::parse(test.text);
    size_t outputs = module->graphs().front()->outputs().size();
    std::vector<std::vector<double>> before;
    try {
      before = run_first_graph(*module, outputs);
      PassContext context;
      for (const std::string& step : test.steps) find_pass(step)->make()->run(*module, context);
    } catch (const Error&) {
      continue;  // opaque ops, empty streams, cases that are refused
    }
    if (module->graphs().front()->name() != test.name) continue;
    EXPECT_EQ(run_first_graph(*module, outputs), before) << test.name << "\n" << ir::print(*module);
    ++compared;
  }
  EXPECT_GT(compared, 2);
}
INSTANTIATE_TEST_SUITE_P(All, PassesKeepNumbers,
                         testing::Values("functionalize", "inline_calls", "inline_single_trip_loops",
                                         "fold_constants", "simplify", "dce"));

TEST(Pipelines, name_only_passes_that_exist) {
  for (const auto& [name, steps] : named_pipelines())
    for (const std::string& text : steps) {
      const Step step = step_of(text);
      if (step.kind == Step::Kind::kPass) {
        EXPECT_NE(find_pass(step.name), nullptr) << name << ": " << text;
      }
      if (step.kind == Step::Kind::kFork) {
        EXPECT_TRUE(named_pipelines().contains(step.name)) << text;
      }
      for (const std::string& pass : step.only_if)
        EXPECT_NE(find_pass(pass), nullptr) << name << ": " << text;
    }
  EXPECT_TRUE(named_pipelines().contains("default"));
}

TEST(Pipelines, run_a_step_with_a_condition_only_after_a_change) {
  auto left = [](const char* text) {
    std::unique_ptr<ir::Module> module = ir::parse(text);
    run_pipeline(*module, {"cse", "dce if cse"}, {}, Verify::kEachPass);
    return module->graphs().front()->ops().size();
  };
  EXPECT_EQ(left("graph @f(%a: f32[2]) -> () { %b = neg(%a) : f32[2] return }"), 1u);
  EXPECT_EQ(left("graph @f(%a: f32[2]) -> () { %b = neg(%a) : f32[2] %c = neg(%a) : f32[2] return }"), 0u);
}

TEST(Pipelines, take_a_copy_where_a_form_forks_off) {
  std::unique_ptr<ir::Module> module =
      ir::parse("graph @f(%a: f32[2], %b: f32[2]) -> f32[] { %y = mse_loss(%a, %b) : f32[] return %y }");
  Forks forks;
  PassContext context;
  context.forks = &forks;
  run_pipeline(*module, {"cse", "fork machine", "decompose"}, context, Verify::kEachPass);
  EXPECT_EQ(ir::print(*module).find("mse_loss"), std::string::npos);
  EXPECT_NE(ir::print(*forks.at("machine")).find("mse_loss"), std::string::npos);
  run_fork("machine", *forks.at("machine"), context, Verify::kEachPass);
  EXPECT_NE(ir::print(*forks.at("machine")).find("mse_loss"), std::string::npos);
}

TEST(Pipelines, an_unknown_pass_is_refused) {
  ir::Module module;
  EXPECT_EQ(message_of([&] { run_pipeline(module, {"fold"}, {}, Verify::kEachPass); }),
            "unknown pass 'fold' [IPU-E202]: ipu-opt --list names the passes.");
}

TEST(Pipelines, count_what_they_did) {
  std::unique_ptr<ir::Module> module =
      ir::parse("graph @f(%a: f32[2]) -> f32[2] { %b = neg(%a) : f32[2] %c = neg(%a) : f32[2] return %b }");
  Statistics outer;
  PassContext context;
  context.statistics = &outer;
  Statistics own = run_pipeline(*module, {"cse", "dce"}, context, Verify::kEachPass);
  EXPECT_EQ(own.counts, (std::map<std::string, int64_t>{{"ops merged", 1}}));
  EXPECT_EQ(outer.counts, own.counts);
}

class BreaksModules : public Pass {
 public:
  bool run(ir::Module& module, const PassContext&) override {
    module.add_ring({"broken", {}, 0, 0, 0});
    return true;
  }
};
IPU_REGISTER_PASS(BreaksModules, "test-breaks-modules", "Adds a ring of no capacity.", {});

TEST(Pipelines, a_pass_that_leaves_an_illegal_module_is_named) {
  ir::Module module;
  EXPECT_EQ(message_of([&] { run_pipeline(module, {"test-breaks-modules"}, {}, Verify::kEachPass); }),
            "internal error [IPU-E0]: pass 'test-breaks-modules' left an illegal module.\n"
            "invalid IR [IPU-E202]: 1 violation.\n"
            "  ring @broken has capacity 0.");
}

TEST(Pipelines, verify_where_they_are_told_to) {
  ir::Module module;
  EXPECT_EQ(message_of([&] {
              run_pipeline(module, {"test-breaks-modules", "dce"}, {}, Verify::kEnds);
            }),
            "internal error [IPU-E0]: a pass (IPU_VERIFY=passes says which) left an illegal module.\n"
            "invalid IR [IPU-E202]: 1 violation.\n"
            "  ring @broken has capacity 0.");
  EXPECT_EQ(message_of([&] { run_pipeline(module, {}, {}, Verify::kEnds); }).find("invalid IR [IPU-E202]"),
            0u);
  EXPECT_NO_THROW(run_pipeline(module, {"test-breaks-modules"}, {}, Verify::kNever));
}

TEST(Pipelines, take_from_the_environment_where_to_verify) {
  unsetenv("IPU_VERIFY");
  EXPECT_EQ(verify_from_environment(Verify::kEachPass), Verify::kEachPass);
  const std::pair<const char*, Verify> words[] = {
      {"", Verify::kEnds}, {"never", Verify::kNever}, {"ends", Verify::kEnds}, {"passes", Verify::kEachPass}};
  for (const auto& [word, meant] : words) {
    setenv("IPU_VERIFY", word, 1);
    EXPECT_EQ(verify_from_environment(Verify::kEnds), meant) << word;
  }
  setenv("IPU_VERIFY", "always", 1);
  EXPECT_EQ(message_of([] { verify_from_environment(Verify::kEnds); }),
            "IPU_VERIFY is not understood [IPU-E503]: 'always' is none of never, ends, passes.");
  unsetenv("IPU_VERIFY");
}

class Dumps : public testing::Test {
 protected:
  Dumps() : directory_(std::filesystem::temp_directory_path() / ("ipu_dumps_" + std::to_string(getpid()))) {
    std::filesystem::create_directory(directory_);
    setenv("IPU_DUMP_DIR", directory_.c_str(), 1);
  }
  ~Dumps() override {
    unsetenv("IPU_DUMP");
    unsetenv("IPU_DUMP_DIR");
    std::filesystem::remove_all(directory_);
  }
  // Names without the number in front.
  std::vector<std::string> run(const char* wanted) {
    setenv("IPU_DUMP", wanted, 1);
    std::unique_ptr<ir::Module> module =
        ir::parse("graph @f(%a: f32[2]) -> () { %b = neg(%a) : f32[2] return }");
    run_pipeline(*module, {"cse", "@Here", "dce"}, {}, Verify::kEachPass);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      std::ifstream file(entry.path());
      ir::parse(std::string(std::istreambuf_iterator<char>(file), {}));
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    for (std::string& name : names) name = name.substr(4);
    return names;
  }
  std::filesystem::path directory_;
};

TEST_F(Dumps, are_written_where_they_are_asked_for_and_parse_back) {
  EXPECT_EQ(run("before:dce,at:Here"), (std::vector<std::string>{"at-Here.ir", "before-dce.ir"}));
}
TEST_F(Dumps, are_written_before_and_after_each_pass_when_all_are_asked_for) {
  EXPECT_EQ(run("all"), (std::vector<std::string>{"before-cse.ir", "after-cse.ir", "at-Here.ir",
                                                  "before-dce.ir", "after-dce.ir"}));
}
TEST_F(Dumps, that_mean_nothing_are_refused) {
  EXPECT_EQ(message_of([&] { run("after:ces"); }),
            "IPU_DUMP is not understood [IPU-E503]: 'after:ces' is none of all, before:PASS, after:PASS, "
            "at:CHECKPOINT. "
            "ipu-opt --list names the passes.");
  setenv("IPU_DUMP_DIR", "/nonexistent", 1);
  EXPECT_NE(message_of([&] { run("all"); }).find("dump not written [IPU-E503]"), std::string::npos);
}

TEST(TextCases, directives_match_in_order) {
  const char* output = "graph @f() -> () {\n  %a = one()\n  %b = two() {x=1}\n  return\n}\n";
  auto check = [&](const std::string& directives) { return check_expectations(directives, output); };
  EXPECT_EQ(check("// CHECK: one\n// CHECK-NEXT: two()\n// CHECK-SAME: x=1\n// CHECK: return"), "");
  EXPECT_EQ(check("// CHECK:   %a   =  one()"), "");  // runs of spaces are one
  EXPECT_EQ(check("// CHECK: two\n// CHECK: one"),
            "line 2 of the case: 'one' is not there after the last match.");
  EXPECT_EQ(check("// CHECK: one\n// CHECK-NEXT: return"),
            "line 2 of the case: 'return' is not there on the next line.");
  EXPECT_EQ(check("// CHECK: one\n// CHECK-SAME: two"),
            "line 2 of the case: 'two' is not there on the same line.");
  EXPECT_EQ(check("// CHECK-NOT: two"), "line 1 of the case: CHECK-NOT: 'two' is there.");
  EXPECT_EQ(check("// CHECK-NOT: two\n// CHECK: one"), "");
  EXPECT_EQ(check("// CHECK: one\n// CHECK-NOT: two\n// CHECK: return"),
            "line 2 of the case: CHECK-NOT: 'two' is there.");
  EXPECT_EQ(message_of([&] { check("// CHECK-NET: two"); }),
            "parse error [IPU-E203]: unknown directive in '// CHECK-NET: two'; known are CHECK, CHECK-NEXT, "
            "CHECK-SAME, CHECK-NOT and CHECK-ERROR, each with ': text'.");
}

std::string failure(const std::string& text) { return run_case(split_cases(text, "t.ir").at(0), {}).failure; }

TEST(TextCases, a_pass_must_be_honest_legal_and_idempotent) {
  EXPECT_NE(failure("// RUN: ipu-opt --passes=test-breaks-modules %s").find("left an illegal module"),
            std::string::npos);
  EXPECT_NE(
      failure("// RUN: ipu-opt --passes=test-lies %s").find("says it changed something and changed nothing"),
      std::string::npos);
  EXPECT_NE(failure("// RUN: ipu-opt --passes=test-grows %s").find("is not idempotent"), std::string::npos);
}
class Lies : public Pass {
  bool run(ir::Module&, const PassContext&) override { return true; }
};
IPU_REGISTER_PASS(Lies, "test-lies", "Says it changed something.", {});
class Grows : public Pass {
  bool run(ir::Module& module, const PassContext&) override {
    module.add_graph("g");
    return true;
  }
};
IPU_REGISTER_PASS(Grows, "test-grows", "Adds a graph each time.", {});

TEST(TextCases, a_file_says_what_to_run) {
  EXPECT_EQ(message_of([] { split_cases("graph @f() -> () { return }", "t.ir"); }),
            "parse error [IPU-E203]: t.ir has no line '// RUN: ipu-opt --passes=...'.");
  EXPECT_EQ(message_of([] { steps_of("--passes=cse,fold"); }),
            "unknown pass 'fold' [IPU-E202]: ipu-opt --list names the passes.");
  EXPECT_EQ(message_of([] { steps_of("--pipeline=fast"); }),
            "unknown pipeline 'fast' [IPU-E202]: ipu-opt --list names them.");
  EXPECT_EQ(message_of([] { steps_of("cse"); }),
            "unknown option 'cse' [IPU-E202]: expected --passes=A,B, --pipeline=NAME or --patterns=LEVEL.");
}

TEST(TextCases, an_expected_error_must_come) {
  const char* text = "// RUN: ipu-opt --passes=cse %s\n// CHECK-ERROR: bad\ngraph @f() -> () { return }";
  EXPECT_NE(failure(text).find("CHECK-ERROR: 'bad', and nothing was refused"), std::string::npos);
  EXPECT_EQ(failure("// RUN: ipu-opt --passes=cse %s\n// CHECK-ERROR: not defined before\ngraph @f() -> () { "
                    "neg(%a) return }"),
            "");
}

TEST(PipelineToRings, a_pipeline_in_a_stage_is_refused) {
  const char* text = R"(
graph @main(%x: f32[2]) -> f32[2] {
  %0 = pipeline(%x) {carried=1, micro_batches=2, schedule="grouped", stages=[@outer]} : f32[2]
  return %0
}
graph @outer(%i: i32[], %c: f32[2]) -> f32[2] {
  %0 = pipeline(%c) {carried=1, micro_batches=2, schedule="grouped", stages=[@inner]} : f32[2]
  return %0
}
graph @inner(%i: i32[], %c: f32[2]) -> f32[2] {
  %0 = neg(%c) : f32[2]
  return %0
})";
  const std::unique_ptr<ir::Module> module = ir::parse(text);
  const std::string message =
      message_of([&] { find_pass("pipeline-to-rings")->make()->run(*module, PassContext()); });
  EXPECT_EQ(
      message,
      "invalid IR [IPU-E202]: stage @outer of a pipeline holds another pipeline. Make one pipeline of them, "
      "or a loop of the inner one.");
}

}  // namespace
}  // namespace ipu::passes
