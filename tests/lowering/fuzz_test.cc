// Random functional modules: nested loops and branches, views, in-place candidates, state, several IPUs. The
// engine must agree with the interpreter on each. Bounded and seeded; IPU_FUZZ_ROUNDS makes it longer.
#include <gtest/gtest.h>

#include <cstdlib>

#include "ir/text/text.h"
#include "lowering/lower.h"
#include "ops/verify.h"
#include "passes/pass.h"
#include "support/error.h"
#include "tests/lowering/oracle.h"
#include "tests/lowering/random_program.h"

namespace ipu::lowering {
namespace {

using testing_random::RandomProgram;

int rounds() {
  const char* text = std::getenv("IPU_FUZZ_ROUNDS");
  return text == nullptr ? 60 : std::atoi(text);
}

void check(uint64_t seed, int ipus, const std::vector<std::string>& passes, bool has_calls = false) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(ipus) + " IPUs");
  std::unique_ptr<ir::Module> reference = RandomProgram(seed, ipus, has_calls).make(),
                              module = RandomProgram(seed, ipus, has_calls).make();
  ops::verify(*reference, ir::Form::kFunctional);
  try {
    passes::run_pipeline(*module, passes, {}, passes::Verify::kEachPass);
    program::Program lowered = lower(*module, {});
    SCOPED_TRACE(ir::print(*module));
    testing_oracle::compare(*reference, lowered, 2e-4, 0.25);
  } catch (const Error& error) {
    FAIL() << error.message() << "\n" << ir::print(*module);
  }
}

TEST(LowerFuzz, ProgramsOfOneIpuComputeWhatTheInterpreterDoes) {
  for (int seed = 1; seed <= rounds(); ++seed) ASSERT_NO_FATAL_FAILURE(check(seed, 1, {}));
}

TEST(LowerFuzz, ProgramsOfSeveralIpusComputeWhatTheInterpreterDoes) {
  for (int seed = 1; seed <= rounds(); ++seed)
    ASSERT_NO_FATAL_FAILURE(check(1000 + seed, 3, {"insert-ipu-copies"}));
}

TEST(LowerFuzz, OptimisedProgramsComputeWhatTheInterpreterDoes) {
  std::vector<std::string> passes{"inline-single-trip-loops", "fold-constants", "simplify", "cse", "dce"};
  for (const char* name : {"channels-last", "pack-weights", "fuse-pointwise"})
    if (passes::find_pass(name) != nullptr) passes.push_back(name);
  passes.push_back("insert-ipu-copies");
  passes.push_back("dce");
  for (int seed = 1; seed <= rounds(); ++seed) ASSERT_NO_FATAL_FAILURE(check(2000 + seed, 2, passes));
}

TEST(LowerFuzz, SubroutinesOnOneIpuComputeWhatTheInterpreterDoes) {
  for (int seed = 1; seed <= rounds(); ++seed) ASSERT_NO_FATAL_FAILURE(check(3000 + seed, 1, {}, true));
}

TEST(LowerFuzz, SubroutinesOnSeveralIpusComputeWhatTheInterpreterDoes) {
  for (int seed = 1; seed <= rounds(); ++seed)
    ASSERT_NO_FATAL_FAILURE(check(4000 + seed, 3, {"insert-ipu-copies"}, true));
}

TEST(LowerFuzz, OptimisedSubroutinesComputeWhatTheInterpreterDoes) {
  const std::vector<std::string> passes{"inline-single-trip-loops",
                                        "fold-constants",
                                        "simplify",
                                        "cse",
                                        "dce",
                                        "channels-last",
                                        "pack-weights",
                                        "fuse-pointwise",
                                        "hoist-updates",
                                        "insert-ipu-copies",
                                        "dce"};
  for (int seed = 1; seed <= rounds(); ++seed) ASSERT_NO_FATAL_FAILURE(check(5000 + seed, 2, passes, true));
}

}  // namespace
}  // namespace ipu::lowering
