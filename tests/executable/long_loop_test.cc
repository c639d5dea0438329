// A loop of many trips with gradients (tests/ir/needs/long_loop_gradient.ir) as a program: a trip touches what it
// computes and one row of the stash, and memory grows by a row a trip.
#include <gtest/gtest.h>

// GCC bug 105562: a false alarm under sanitizers.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <regex>
#pragma GCC diagnostic pop

#include <fstream>
#include <iterator>

#include "executable/compile.h"
#include "ir/text/text.h"
#include "tests/source_tree.h"

namespace ipu::executable {
namespace {

program::IpuProgram compiled(int trips) {
  std::ifstream file(source_tree() / "tests" / "ir" / "needs" / "long_loop_gradient.ir");
  std::string text(std::istreambuf_iterator<char>(file), {});
  text = std::regex_replace(text, std::regex("10000"), std::to_string(trips));
  text = std::regex_replace(text, std::regex("9999"), std::to_string(trips - 1));
  const std::unique_ptr<ir::Module> module = ir::parse(text);
  return compile(*module, target::find_system("pod16"), {}).program->ipus.at(0);
}

TEST(LongLoops, WriteARowOfTheStashInPlace) {
  const program::IpuProgram ipu = compiled(10000);
  int depth = 0, written = 0;
  for (const program::Instruction& step : ipu.instructions) {
    if (step.opcode == program::Opcode::kLoop) ++depth;
    if (step.opcode == program::Opcode::kEndLoop) --depth;
    if (depth == 0 || step.opcode != program::Opcode::kKernel) continue;
    for (const program::Operand& result : step.results) {
      if (result.spec.stored_bytes() < 10000) continue;
      EXPECT_EQ(step.kernel, "index_copy");
      EXPECT_EQ(result.buffer, step.operands[0].buffer);
      ++written;
    }
  }
  EXPECT_EQ(written, 1);  // x; nobody needs the rows of s
}

TEST(LongLoops, TakeMemoryForARowATrip) {
  const int64_t shorter = compiled(10000).arena_bytes, longer = compiled(110000).arena_bytes;
  EXPECT_EQ(longer - shorter, 100000 * 8);
  EXPECT_LT(shorter, 10000 * 8 + 1024);
}

TEST(LongLoops, AreAProgramOfTheSameLength) {
  EXPECT_EQ(compiled(10).instructions.size(), compiled(100000).instructions.size());
}

}  // namespace
}  // namespace ipu::executable
