// Programs with subroutines, written by hand: what the checks take, count and refuse.
#include <gtest/gtest.h>

#include "program/stream_uses.h"
#include "support/error.h"
#include "tests/program/program_writer.h"
#include "tests/thrown.h"

namespace ipu::program {
namespace {

void expect_message(const std::function<void()>& action, const std::string& part) {
  const std::string message = message_of(action);
  EXPECT_NE(message.find(part), std::string::npos) << "got: " << message;
}

// main: y = twice(twice(x)) in a loop of three; twice calls once two times; once copies through a buffer of its own.
class Subroutines : public testing::Test {
 protected:
  enum : int { kCallInLoop = 2, kStore = 5, kInOnce = 6, kInTwice = 9 };

  Subroutines() {
    program_.ipus.resize(1);
    in_ = add_stream(program_, "in", StreamMode::kInput, f32({4}));
    out_ = add_stream(program_, "out", StreamMode::kAll, f32({4}));
    IpuWriter w(program_, 0);
    const Operand x = w.arena(f32({4}), "x"), y = w.arena(f32({4}), "y"), z = w.arena(f32({4}), "z");
    const Operand a = w.parameter(f32({4}), "a"), b = w.parameter(f32({4}), "b");
    const Operand c = w.parameter(f32({4}), "c"), d = w.parameter(f32({4}), "d");
    const Operand in_twice = w.arena(f32({4}), "in_twice"), in_once = w.arena(f32({4}), "in_once");
    w.loop(3);
    w.load(in_, x);
    w.call(1, {x}, {y});
    w.call(1, {y}, {z});
    w.end_loop();
    w.store(out_, z);
    w.subroutine("once", {a}, {b});
    w.kernel("copy", {a}, {in_once});
    w.kernel("copy", {in_once}, {b});
    w.end_subroutine();
    w.subroutine("twice", {c}, {d});
    w.call(0, {c}, {in_twice});
    w.call(0, {in_twice}, {d});
    w.end_subroutine();
    x_ = x;
    z_ = z;
    c_ = c;
    in_once_ = in_once;
    in_twice_ = in_twice;
  }
  IpuProgram& code() { return program_.ipus[0]; }
  Instruction& step(int n) { return code().instructions[static_cast<size_t>(n)]; }
  void check() {
    check_program(program_);
    check_plan(code());
    check_deadlock(program_);
  }
  void expect_refused(const std::string& part) {
    expect_message([&] { check(); }, part);
  }

  Program program_;
  int in_ = 0, out_ = 0;
  Operand x_, z_, c_, in_once_, in_twice_;
};

TEST_F(Subroutines, AreTakenAndPrinted) {
  check();
  const std::string text = print(program_);
  EXPECT_NE(text.find("2: b1:y f32[4] = call @twice(b0:x f32[4])"), std::string::npos) << text;
  EXPECT_NE(text.find("subroutine twice(b5) -> (b6):"), std::string::npos) << text;
  EXPECT_NE(text.find("8: return"), std::string::npos) << text;
  EXPECT_EQ(code_of(code(), 0).end, 6);
  EXPECT_EQ(code_of_subroutine(code(), 1).begin, 9);
}

TEST_F(Subroutines, AFrameMayLieWhereNothingIsAliveAtTheCall) {
  code().buffers[in_once_.buffer].offset =
      code().buffers[z_.buffer].offset;  // z is written by the call itself
  expect_refused("is alive at the call of instruction 3, and the subroutine uses bytes 128 to 208");
  code().buffers[in_once_.buffer].offset = code().buffers[in_twice_.buffer].offset;
  expect_refused("is alive at the call of instruction 10");
}

TEST_F(Subroutines, CallOnlyWhatIsListedBefore) {
  step(kInTwice).object = 1;
  expect_refused("instruction 9 (call): no such subroutine before this one");
  step(kInTwice).object = -1;
  expect_refused("no such subroutine before this one");
}

TEST_F(Subroutines, TakeWhatTheyAreCalledWith) {
  Instruction before = step(kCallInLoop);
  step(kCallInLoop).operands.clear();
  expect_refused("takes 1 operands and 1 results");
  step(kCallInLoop) = before;
  step(kCallInLoop).operands[0].spec = f32({2});
  expect_refused("operand has 8 bytes, not 16");
  step(kCallInLoop) = before;
  step(kCallInLoop).results[0] = x_;
  expect_refused("a result is in the buffer of an operand");
}

TEST_F(Subroutines, OwnTheirParameters) {
  const Operand before = step(kInOnce).operands[0];
  step(kInOnce).operands[0] = c_;
  expect_refused("operand is parameter c of another place");
  step(kInOnce).operands[0] = before;
  step(kInOnce).results[0] = before;
  expect_refused("writes input a of its subroutine");
  step(kInOnce).results[0] = in_once_;
  step(1).results[0] = c_;
  expect_refused("result is parameter c of another place");
}

TEST_F(Subroutines, EndWithTheirReturn) {
  step(kStore).opcode = Opcode::kReturn;
  step(kStore).operands.clear();
  step(kStore).object = -1;
  expect_refused("instruction 5 (return): returns elsewhere than at the end of a subroutine");
  code().instructions.back().opcode = Opcode::kJump;
  expect_refused("subroutine 1 (twice): it does not end with a return");
}

TEST_F(Subroutines, WriteTheirOutputs) {
  step(kInOnce + 1).results[0] = in_once_;
  expect_refused("instruction 8 returns without output 4 (b), which nothing has written");
}

TEST_F(Subroutines, KeepCountersToThemselves) {
  IpuProgram& ipu = code();
  Instruction loop, end;
  loop.opcode = Opcode::kLoop;
  end.opcode = Opcode::kEndLoop;
  loop.counter = end.counter = 0;
  loop.trip = 2;
  loop.target = 7;
  end.target = 6;
  ipu.instructions.insert(ipu.instructions.begin() + kInOnce, {loop, end});
  ipu.subroutines[1].begin += 2;
  expect_refused("instruction 0 (loop): counter belongs to a subroutine");
  ipu.subroutines[1].begin = kInOnce + 1;  // twice ends the loop that once begins
  expect_refused("subroutine 0 (once): it does not end with a return");
  ipu.subroutines[1].begin = kInTwice + 2;
  ipu.counters = 2;
  ipu.instructions[kInOnce].counter = ipu.instructions[kInOnce + 1].counter = 1;
  check();
}

TEST_F(Subroutines, MoveElementsOnEachCall) {
  Instruction load = step(1);
  load.results[0] = in_once_;
  step(kInOnce) = load;  // instead of the copy of the input
  check();
  const std::vector<StreamUse> uses = stream_uses(program_, 0);
  EXPECT_EQ(uses[static_cast<size_t>(in_)].elements, 3 * (1 + 2 * 2));
  EXPECT_TRUE(uses[static_cast<size_t>(in_)].is_exact);
  EXPECT_EQ(uses[static_cast<size_t>(out_)].elements, 1);
}

// Two IPUs meet in a subroutine.
Program ring_in_subroutines(int pops) {
  Program p;
  p.ipus.resize(2);
  const int ring = add_ring(p, "over", 16, 2, 0, 1);
  IpuWriter a(p, 0), b(p, 1);
  const Operand x = a.arena(f32({4})), y = b.arena(f32({4}));
  for (int i = 0; i < 3; ++i) a.call(0, {}, {});
  for (int i = 0; i < pops; ++i) b.call(0, {}, {});
  a.subroutine("send", {}, {});
  a.kernel("make", {}, {x});
  a.push(ring, x);
  a.end_subroutine();
  b.subroutine("take", {}, {});
  b.pop(ring, y);
  b.end_subroutine();
  return p;
}

TEST(SubroutineDeadlock, CallsAreFollowed) {
  const Program p = ring_in_subroutines(3);
  check_program(p);
  check_deadlock(p);
  expect_message([] { check_deadlock(ring_in_subroutines(0)); },
                 "IPU 0, instruction 4 (push) waits for IPU 1: ring over is full with 2 elements");
  expect_message([] { check_deadlock(ring_in_subroutines(4)); },
                 "IPU 1, instruction 4 (pop) waits for IPU 0");
}

}  // namespace
}  // namespace ipu::program
