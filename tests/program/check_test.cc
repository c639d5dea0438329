#include <gtest/gtest.h>

#include "support/error.h"
#include "tests/program/program_writer.h"
#include "tests/thrown.h"

namespace ipu::program {
namespace {

void expect_message(const std::function<void()>& action, const std::string& part) {
  std::string message = message_of(action);
  EXPECT_NE(message.find(part), std::string::npos) << "got: " << message;
}

// Two IPUs, `rounds` elements over one ring.
Program two_stages(int64_t rounds, bool with_pop = true) {
  Program p;
  p.ipus.resize(2);
  int q = add_ring(p, "x_to_1", 16, 2, 0, 1);
  IpuWriter a(p, 0), b(p, 1);
  Operand x = a.arena(f32({4})), y = b.arena(f32({4}));
  a.loop(rounds);
  a.kernel("make", {}, {x});
  a.push(q, x);
  a.end_loop();
  b.loop(rounds);
  if (with_pop) b.pop(q, y);
  b.end_loop();
  return p;
}

TEST(CheckProgram, AcceptsTwoStages) {
  Program p = two_stages(5);
  check_program(p);
  for (const IpuProgram& ipu : p.ipus) check_plan(ipu);
  check_deadlock(p);
  EXPECT_NE(print(p).find("push @x_to_1"), std::string::npos);
}

TEST(Describe, ASetOfOpsNamesFourLinesAndCountsTheOthers) {
  Program p = two_stages(1);
  p.origins.push_back({.op = "%x = fused", .location = "m.py:9 [top]", .joined = {"m.py:1", "m.py:2"}});
  p.ipus[0].instructions[1].origin = 0;
  EXPECT_EQ(describe(p, 0, 1),
            "IPU 0, instruction 1 (kernel make), op %x = fused, from m.py:9 [top], m.py:1, m.py:2");
  EXPECT_NE(print(p).find("// m.py:9 [top], m.py:1, m.py:2"), std::string::npos);
  p.origins[0].joined = {"m.py:1", "m.py:2", "m.py:3", "m.py:4", "m.py:5"};
  EXPECT_NE(describe(p, 0, 1).find(", from m.py:9 [top], m.py:1, m.py:2, m.py:3 and 2 more"),
            std::string::npos);
  EXPECT_NE(print(p).find("m.py:4, m.py:5"), std::string::npos);
}

TEST(CheckDeadlock, NamesWhoWaitsForWhomWhenAChannelEndWasRemoved) {
  Program p = two_stages(5, /*with_pop=*/false);
  expect_message([&] { check_deadlock(p); },
                 "IPU 0, instruction 2 (push) waits for IPU 1: ring x_to_1 is full with 2 elements");
  expect_message([&] { check_deadlock(p); }, "IPU 1 has ended");
}

TEST(CheckDeadlock, FindsTheMissingElementOfALongLoop) {
  Program p = two_stages(1'000'000'000);
  check_deadlock(p);  // returns at once: the body repeats itself
  p.ipus[0].instructions.erase(p.ipus[0].instructions.begin() + 2);
  p.ipus[0].instructions[0].target = 2;
  expect_message([&] { check_deadlock(p); }, "waits for IPU 0: ring x_to_1 is empty");
}

TEST(CheckDeadlock, FindsACycleOfTwoRings) {
  Program p;
  p.ipus.resize(2);
  int there = add_ring(p, "there", 16, 2, 0, 1), back = add_ring(p, "back", 16, 2, 1, 0);
  IpuWriter a(p, 0), b(p, 1);
  Operand x = a.arena(f32({4})), y = b.arena(f32({4}));
  a.pop(back, x);
  a.push(there, x);
  b.pop(there, y);
  b.push(back, y);
  expect_message([&] { check_deadlock(p); },
                 "IPU 0, instruction 0 (pop) waits for IPU 1: ring back is empty");
}

TEST(CheckDeadlock, FollowsBranchesOnCounters) {
  for (int64_t high : {3, 4}) {
    Program p;
    p.ipus.resize(2);
    int q = add_ring(p, "q", 16, 2, 0, 1);
    IpuWriter a(p, 0), b(p, 1);
    Operand x = a.arena(f32({4})), y = b.arena(f32({4}));
    a.loop(4);
    int skip = a.branch_unless(a.counter(), 0, 3);
    a.kernel("make", {}, {x});
    a.push(q, x);
    a.land(skip);
    a.end_loop();
    b.loop(4);
    skip = b.branch_unless(b.counter(), 1, high);
    b.pop(q, y);
    b.land(skip);
    b.end_loop();
    if (high == 4) {
      check_deadlock(p);
    } else {
      expect_message([&] { check_deadlock(p); }, "still holds 1 elements");
    }
  }
}

TEST(CheckDeadlock, TriesBothOutcomesOfUnknownBranches) {
  Program p;
  p.ipus.resize(2);
  int q = add_ring(p, "q", 16, 2, 0, 1);
  IpuWriter a(p, 0), b(p, 1);
  Operand c = a.arena(boolean()), x = a.arena(f32({4})), y = b.arena(f32({4}));
  a.kernel("make", {}, {c});
  a.kernel("make", {}, {x});
  int skip = a.branch_if_not(c);
  a.push(q, x);
  a.land(skip);
  b.pop(q, y);
  expect_message([&] { check_deadlock(p); }, "waits for IPU 0: ring q is empty");
}

TEST(CheckPlan, RefusesBuffersThatOverlapWhileAlive) {
  Program p;
  p.ipus.resize(1);
  IpuWriter w(p, 0);
  Operand a = w.arena(f32({4}), "a", 0), b = w.arena(f32({4}), "b", 8), c = w.arena(f32({4}), "c", 64);
  w.kernel("make", {}, {a});
  w.kernel("make", {}, {b});
  w.kernel("add", {a, b}, {c});
  expect_message([&] { check_plan(p.ipus[0]); }, "overlap and are alive together");
}

TEST(CheckPlan, LetsDeadBuffersShareBytes) {
  Program p;
  p.ipus.resize(1);
  IpuWriter w(p, 0);
  Operand a = w.arena(f32({4}), "a", 0), b = w.arena(f32({4}), "b", 64), c = w.arena(f32({4}), "c", 0);
  w.kernel("make", {}, {a});
  w.kernel("f", {a}, {b});
  w.kernel("f", {b}, {c});
  check_plan(p.ipus[0]);
  // The same step reads a and writes c over it: they are alive together.
  p.ipus[0].instructions[2].operands.push_back(a);
  expect_message([&] { check_plan(p.ipus[0]); }, "overlap");
}

TEST(CheckPlan, KeepsValuesOfTheLastIterationAlive) {
  Program p;
  p.ipus.resize(1);
  IpuWriter w(p, 0);
  Operand carried = w.arena(f32({4}), "carried", 0), inside = w.arena(f32({4}), "inside", 0),
          out = w.arena(f32({4}), "out", 64);
  w.kernel("make", {}, {carried});
  w.loop(3);
  w.kernel("f", {carried}, {out});
  w.kernel("make", {}, {inside});  // overwrites what the next iteration reads
  w.end_loop();
  expect_message([&] { check_plan(p.ipus[0]); }, "overlap");
}

TEST(CheckPlan, TreatsBranchesAsExclusive) {
  Program p;
  p.ipus.resize(1);
  IpuWriter w(p, 0);
  Operand c = w.arena(boolean(), "c", 128), a = w.arena(f32({4}), "a", 0), b = w.arena(f32({4}), "b", 0),
          r = w.arena(f32({4}), "r", 64);
  w.kernel("make", {}, {c});
  int otherwise = w.branch_if_not(c);
  w.kernel("make", {}, {a});
  w.kernel("f", {a}, {r});
  int end = w.jump();
  w.land(otherwise);
  w.kernel("make", {}, {b});
  w.kernel("f", {b}, {r});
  w.land(end);
  w.kernel("f", {r}, {c});
  check_plan(p.ipus[0]);
}

TEST(CheckPlan, RefusesReadsOfWhatNothingWrote) {
  Program p;
  p.ipus.resize(1);
  IpuWriter w(p, 0);
  Operand a = w.arena(f32({4}), "a"), b = w.arena(f32({4}), "b");
  w.kernel("f", {a}, {b});
  expect_message([&] { check_plan(p.ipus[0]); }, "reads buffer 0 (a), which nothing has written");
}

TEST(CheckProgram, RefusesViewsLargerThanTheirBuffer) {
  Program p;
  p.ipus.resize(1);
  IpuWriter w(p, 0);
  Operand a = w.arena(f32({4}), "a");
  a.byte_offset = 4;
  w.kernel("make", {}, {a});
  expect_message([&] { check_program(p); }, "result needs 16 bytes from byte 4 on, buffer 0 (a) has 16");
}

TEST(CheckProgram, RefusesStreamsLargerThanAnyMemory) {
  Program p;
  p.ipus.resize(1);
  const int in = add_stream(p, "in", StreamMode::kInput, f32({4}));
  IpuWriter w(p, 0);
  const Operand x = w.arena(f32({4}), "x");
  w.loop(int64_t{1} << 31);
  w.loop(int64_t{1} << 31);
  w.load(in, x);
  w.end_loop();
  w.end_loop();
  expect_message([&] { check_program(p); }, "size overflow");
}

TEST(CheckProgram, RefusesAStepThatNamesAVariableOfAnotherIpu) {
  Program p;
  p.ipus.resize(2);
  p.variables.push_back({"w", "parameter", f32({4}), 0, -1, true});
  IpuWriter w(p, 1);
  w.kernel("make", {}, {w.variable(0)});
  expect_message([&] { check_program(p); }, "variable w is on IPU 0");
}

TEST(CheckProgram, RefusesWritesToReadOnlyVariables) {
  Program p;
  p.ipus.resize(1);
  p.variables.push_back({"w", "parameter", f32({4}), 0, -1, false});
  IpuWriter w(p, 0);
  w.kernel("make", {}, {w.variable(0)});
  expect_message([&] { check_program(p); }, "declared read-only");
}

TEST(CheckProgram, RefusesJumpsIntoLoops) {
  Program p;
  p.ipus.resize(1);
  IpuWriter w(p, 0);
  Operand a = w.arena(f32({4}), "a");
  int jump = w.jump();
  w.loop(2);
  w.kernel("make", {}, {a});
  w.end_loop();
  p.ipus[0].instructions[jump].target = 2;
  expect_message([&] { check_program(p); }, "target is in another loop");
}

TEST(CheckProgram, RefusesWrongEndsOfQueuesAndStreams) {
  Program p = two_stages(1);
  p.rings[0].from_ipu = 1;
  expect_message([&] { check_program(p); }, "ring x_to_1 is filled by IPU 1");
  p = two_stages(1);
  p.rings[0].bytes = 32;
  expect_message([&] { check_program(p); }, "element has 16 bytes, not 32");
}

}  // namespace
}  // namespace ipu::program
