// Elements of output streams that are made where the host wants them (kStreamPlace).
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <vector>

#include "emulator/engine.h"
#include "emulator/proof/prove.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "support/error.h"
#include "tests/program/program_writer.h"
#include "tests/thrown.h"

namespace ipu::emulator {
namespace {

using namespace ipu::program;  // NOLINT: tests write programs

std::atomic<std::byte*> written{nullptr};  // where the last reversal wrote

// y = x in reverse order: wrong where both overlap.
class Reverse final : public kernels::PreparedKernel {
 public:
  void run(const kernels::KernelCall& call, int) const override {
    const auto* x = reinterpret_cast<const float*>(call.operands[0]);
    auto* y = reinterpret_cast<float*>(call.results[0]);
    for (int i = 0; i < 4; ++i) y[i] = x[3 - i];
    written = call.results[0];
  }
};
std::unique_ptr<kernels::PreparedKernel> prepare_reverse(const kernels::KernelRequest&) {
  return std::make_unique<Reverse>();
}
IPU_REGISTER_KERNEL("test.reverse_four", prepare_reverse, kernels::footprint_of_views);

// `rounds` elements of four floats, each reversed into a place of stream y.
Program reversing(int64_t rounds, StreamMode mode) {
  Program p;
  p.ipus.resize(1);
  const int x = add_stream(p, "x", StreamMode::kInput, f32({4})), y = add_stream(p, "y", mode, f32({4}));
  IpuWriter w(p, 0);
  Operand in = w.external(f32({4}), "in"), out = w.external(f32({4}), "out");
  w.loop(rounds);
  w.load(x, in);
  w.place(y, out);
  w.kernel("test.reverse_four", {in}, {out});
  w.store(y, out);
  w.end_loop();
  return p;
}

std::shared_ptr<const Program> checked(Program p) {
  check_program(p);
  for (const IpuProgram& ipu : p.ipus) check_plan(ipu);
  prove_program(p);
  return std::make_shared<const Program>(std::move(p));
}

std::vector<float> counted(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}
const std::vector<float> kReversed{3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8};  // counted(12), by fours

StreamBinding bound(std::vector<float>& data, Ownership ownership = Ownership::kShared) {
  return {reinterpret_cast<std::byte*>(data.data()), static_cast<int64_t>(data.size()) / 4, ownership};
}

TEST(StreamPlaces, AnElementIsMadeInTheArrayThatIsOwned) {
  Engine engine(checked(reversing(3, StreamMode::kAll)), {.threads = 1});
  std::vector<float> x = counted(12), y(12, -1.0f);
  const StreamBinding bindings[] = {bound(x), bound(y, Ownership::kOwned)};
  engine.run(bindings);
  EXPECT_EQ(y, kReversed);
  EXPECT_EQ(written, reinterpret_cast<std::byte*>(y.data() + 8));
}

TEST(StreamPlaces, ASharedArrayMayOverlapTheInput) {
  Engine engine(checked(reversing(3, StreamMode::kAll)), {.threads = 1});
  std::vector<float> x = counted(12);
  const StreamBinding bindings[] = {bound(x), bound(x)};
  engine.run(bindings);
  EXPECT_EQ(x, kReversed);
  EXPECT_NE(written, reinterpret_cast<std::byte*>(x.data() + 8));
}

TEST(StreamPlaces, ElementsThatTheHostDoesNotKeepAreMadeElsewhere) {
  std::vector<float> x = counted(12), y(4, -1.0f);
  const StreamBinding bindings[] = {bound(x), bound(y, Ownership::kOwned)};
  Engine last(checked(reversing(3, StreamMode::kFinal)), {.threads = 1});
  last.run(bindings);
  EXPECT_EQ(y, (std::vector<float>{11, 10, 9, 8}));
  Engine sum(checked(reversing(3, StreamMode::kSum)), {.threads = 1});
  sum.run(bindings);
  EXPECT_EQ(y, (std::vector<float>{21, 18, 15, 12}));
}

TEST(StreamPlaces, ARunAfterOneThatWasRefusedAsksForItsOwnPlaces) {
  Engine engine(checked(reversing(3, StreamMode::kAll)), {.threads = 1});
  std::vector<float> x = counted(12), y(12, -1.0f), few(8);
  const StreamBinding wrong[] = {bound(x), bound(few, Ownership::kOwned)};
  EXPECT_EQ(message_of([&] { engine.run(wrong); }),
            "wrong tensor for stream 'y' [IPU-E407]: 2 elements bound, 3 expected");
  const StreamBinding right[] = {bound(x), bound(y, Ownership::kOwned)};
  engine.run(right);
  EXPECT_EQ(y, kReversed);
}

TEST(StreamPlaces, AStoreUsesItsPlaceUp) {
  Program p = reversing(1, StreamMode::kAll);
  std::vector<Instruction>& code = p.ipus[0].instructions;  // loop, load, place, kernel, store, end
  code.insert(code.begin() + 4, code[4]);
  code[0].target = 6;
  code[6].target = 0;
  Engine engine(checked(p), {.threads = 1});
  std::vector<float> x = counted(4), y(8, -1.0f);
  const StreamBinding bindings[] = {bound(x), bound(y, Ownership::kOwned)};
  const std::string message = message_of([&] { engine.run(bindings); });
  EXPECT_NE(message.find("'y' gives one more element"), std::string::npos) << message;
}

// --- what a file may say

struct Hostile {
  Program program;
  int in, out;
  Hostile() {
    program.ipus.resize(1);
    in = add_stream(program, "in", StreamMode::kInput, f32({4}));
    out = add_stream(program, "out", StreamMode::kAll, f32({4}));
  }
  IpuWriter writer() { return {program, 0}; }
  void expect_refused(const std::string& why) const {
    const std::string message = message_of([&] {
      check_program(program);
      prove_program(program);
    });
    EXPECT_NE(message.find(why), std::string::npos) << message;
  }
};

TEST(StreamPlaces, AnInputIsNoPlace) {
  Hostile h;
  IpuWriter w = h.writer();
  w.place(h.in, w.external(f32({4}), "y"));
  h.expect_refused("asks an input stream for a place");
}

TEST(StreamPlaces, WhatIsReadIsNotWritten) {
  Hostile h;
  IpuWriter w = h.writer();
  Operand x = w.external(f32({4}), "x");
  w.load(h.in, x);
  w.place(h.out, x);
  w.store(h.out, x);
  h.expect_refused("buffer x lies where another step says, too");
}

TEST(StreamPlaces, ABufferHasThePlacesOfOneStream) {
  Hostile h;
  const int other = add_stream(h.program, "other", StreamMode::kAll, f32({4}));
  IpuWriter w = h.writer();
  Operand y = w.external(f32({4}), "y");
  w.place(h.out, y);
  w.place(other, y);
  h.expect_refused("buffer y lies where another step says, too");
}

TEST(StreamPlaces, AResultNeedsItsPlaceFirst) {
  Hostile h;
  IpuWriter w = h.writer();
  Operand x = w.external(f32({4}), "x"), y = w.external(f32({4}), "y");
  w.load(h.in, x);
  w.kernel("test.reverse_four", {x}, {y});
  w.place(h.out, y);
  w.store(h.out, y);
  h.expect_refused("writes y, which nothing has defined before");
}

TEST(StreamPlaces, APlaceInTheArenaIsNone) {
  Hostile h;
  IpuWriter w = h.writer();
  Operand y = w.arena(f32({4}), "y");
  w.place(h.out, y);
  w.store(h.out, y);
  h.expect_refused("its result is no external buffer");
}

TEST(StreamPlaces, APlaceIsNoLargerThanAnElement) {
  Hostile h;
  IpuWriter w = h.writer();
  Operand y = w.external(f32({4}), "y");
  h.program.ipus[0].buffers[y.buffer].bytes = 32;
  w.place(h.out, y);
  w.store(h.out, y);
  h.expect_refused("buffer y of 32 bytes is larger than an element of its stream, 16 bytes");
}

}  // namespace
}  // namespace ipu::emulator
