// Calls on the engine: parameters lie where each call says, an actor may park within a subroutine, and a run that fails
// in one leaves nothing behind.
#include <gtest/gtest.h>

#include <numeric>

#include "emulator/engine.h"
#include "emulator/proof/prove.h"
#include "support/error.h"
#include "tests/program/program_writer.h"
#include "tests/thrown.h"

namespace ipu::emulator {
namespace {

using namespace ipu::program;  // NOLINT: tests write programs

constexpr int kRounds = 20;

// IPU 0 sends each element from a subroutine that is called by another one; IPU 1 takes it and gives it back twice, once
// through its own arena.
Program relay() {
  Program p;
  p.ipus.resize(2);
  const int in = add_stream(p, "in", StreamMode::kInput, f32({8}));
  const int out = add_stream(p, "out", StreamMode::kAll, f32({8}), 1);
  const int ring = add_ring(p, "over", 32, 1, 0, 1);
  IpuWriter a(p, 0), b(p, 1);

  const Operand x = a.external(f32({8}), "x"), moved = a.arena(f32({8}), "moved");
  const Operand s = a.parameter(f32({8}), "s"), t = a.parameter(f32({8}), "t");
  a.loop(kRounds);
  a.load(in, x);
  a.call(1, {x}, {});
  a.end_loop();
  a.subroutine("send", {s}, {});
  a.push(ring, s);
  a.end_subroutine();
  a.subroutine("copy_and_send", {t}, {});
  a.kernel("copy", {t}, {moved});
  a.call(0, {moved}, {});
  a.end_subroutine();

  const Operand y = b.arena(f32({8}), "y"), z = b.arena(f32({8}), "z"), slot = b.external(f32({8}), "slot");
  const Operand u = b.parameter(f32({8}), "u"), v = b.parameter(f32({8}), "v");
  b.loop(kRounds);
  b.call(0, {}, {y, z});
  b.store(out, y);
  b.store(out, z);
  b.end_loop();
  b.subroutine("take", {}, {u, v});
  b.pop(ring, slot);
  b.kernel("copy", {slot}, {u});
  b.kernel("copy", {slot}, {v});
  b.release(ring);
  b.end_subroutine();
  return p;
}

struct Arrays {
  std::vector<float> in, out;
  std::vector<StreamBinding> bindings() {
    return {{reinterpret_cast<std::byte*>(in.data()), kRounds},
            {reinterpret_cast<std::byte*>(out.data()), int64_t{2} * kRounds}};
  }
};

Arrays arrays() {
  Arrays made{std::vector<float>(8 * kRounds), std::vector<float>(16 * kRounds)};
  std::iota(made.in.begin(), made.in.end(), 1.0F);
  return made;
}

void expect_relayed(const Arrays& arrays) {
  for (int round = 0; round < kRounds; ++round)
    for (int i = 0; i < 16; ++i)
      ASSERT_EQ(arrays.out[16 * round + i], arrays.in[8 * round + i % 8]) << "round " << round << ", " << i;
}

TEST(EngineSubroutines, RunOnEveryNumberOfThreads) {
  const auto program = std::make_shared<const Program>(relay());
  check_program(*program);
  for (const IpuProgram& ipu : program->ipus) check_plan(ipu);
  check_deadlock(*program);
  prove_program(*program);
  for (int threads : {1, 2, 8}) {
    EngineOptions options;
    options.threads = threads;
    options.trace = true;
    Engine engine(program, options);
    for (int run = 0; run < 3; ++run) {
      Arrays of_run = arrays();
      const std::vector<StreamBinding> bindings = of_run.bindings();
      engine.run(bindings);
      expect_relayed(of_run);
      int64_t kernels = 0;  // each time they are called
      for (const TraceEvent& event : engine.take_trace())
        kernels += program->ipus[event.ipu].instructions[event.instruction].opcode == Opcode::kKernel;
      EXPECT_EQ(kernels, int64_t{3} * kRounds);
    }
  }
}

TEST(EngineSubroutines, AreLeftWhenARunIsStopped) {
  EngineOptions options;
  options.threads = 1;
  int polls = 0;
  options.interrupted = [&] { return ++polls == 1; };
  Engine engine(std::make_shared<const Program>(relay()), options);
  Arrays first = arrays(), second = arrays();
  const std::vector<StreamBinding> bindings = first.bindings(), again = second.bindings();
  try {
    engine.run(bindings);  // it may be over before the first question
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
  }
  engine.run(again);
  expect_relayed(second);
}

TEST(EngineSubroutines, AreNotHandedWhatIsLessAligned) {
  Program p = relay();
  // A subroutine that takes for f32 what the call gives as bytes.
  p.ipus[0].instructions[2].operands[0].spec = TensorSpec::plain(DType::kBool, {32});
  check_program(p);
  const std::string message = message_of([&] { prove_program(p); });
  EXPECT_NE(message.find("has an operand that is not aligned to its elements"), std::string::npos) << message;
}

}  // namespace
}  // namespace ipu::emulator
