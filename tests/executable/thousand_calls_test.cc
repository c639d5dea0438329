// A layer that is called a thousand times (tests/ir/needs/thousand_calls.ir) as a program: what would be multiplied
// stays a subroutine, and the bits are those of the calls put in place.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "emulator/engine.h"
#include "executable/compile.h"
#include "ir/subroutine.h"
#include "ir/text/text.h"
#include "tests/source_tree.h"

namespace ipu::executable {
namespace {

std::string text() {
  std::ifstream file(source_tree() / "tests" / "ir" / "needs" / "thousand_calls.ir");
  return {std::istreambuf_iterator<char>(file), {}};
}

// The program as it is compiled, or with all calls put in place first.
std::shared_ptr<const program::Program> compiled(bool inlines) {
  const std::unique_ptr<ir::Module> module = ir::parse(text());
  if (inlines)
    for (const auto& graph : module->graphs()) graph->attributes.set(ir::kSubroutine, false);
  return compile(*module, target::find_system("pod16"), {}).program;
}

std::vector<float> run(const std::shared_ptr<const program::Program>& program, int threads) {
  emulator::EngineOptions options;
  options.threads = threads;
  emulator::Engine engine(program, options);
  std::vector<float> x{0.1F, 1.7F, -500.3F, 4e-3F}, y(4, 0.0F);
  std::vector<emulator::StreamBinding> streams;
  for (const program::Stream& stream : program->streams)
    streams.push_back({reinterpret_cast<std::byte*>(stream.is_input() ? x.data() : y.data()), 1});
  engine.run(streams);
  return y;
}

TEST(ThousandCalls, AreCompiledOnce) {
  const program::IpuProgram ipu = compiled(false)->ipus.at(0);
  ASSERT_EQ(ipu.subroutines.size(), 1);
  EXPECT_EQ(ipu.subroutines[0].name, "hundred");
  int calls = 0;
  for (const program::Instruction& step : ipu.instructions) calls += step.opcode == program::Opcode::kCall;
  EXPECT_EQ(calls, 10);
  const program::IpuProgram inlined = compiled(true)->ipus.at(0);
  EXPECT_TRUE(inlined.subroutines.empty());
  EXPECT_LT(2 * ipu.instructions.size(), inlined.instructions.size());  // groups of 48 ops and calls
}

TEST(ThousandCalls, GiveTheBitsOfTheCallsPutInPlace) {
  const std::vector<float> want = run(compiled(true), 1);
  for (int threads : {1, 2, 8}) {
    const std::vector<float> got = run(compiled(false), threads);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), sizeof(float) * want.size()), 0) << threads << " threads";
  }
}

}  // namespace
}  // namespace ipu::executable
