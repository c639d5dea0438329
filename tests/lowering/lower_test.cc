// Lowering against the interpreter: the same module run by both must agree; and the shape of programs.
#include "lowering/lower.h"

#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "ops/verify.h"
#include "support/error.h"
#include "tests/lowering/oracle.h"

namespace ipu::lowering {
namespace {

using program::Instruction;
using program::Opcode;
using program::Storage;

std::unique_ptr<ir::Module> parsed(const std::string& text) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  ops::verify(*module, ir::Form::kFunctional);
  return module;
}

// Lowers a module and compares a run of it with the interpreter.
program::Program compare(const ir::Module& module, LowerOptions options = {}) {
  program::Program lowered = lower(module, options);
  testing_oracle::compare(module, lowered);
  return lowered;
}

int count(const program::IpuProgram& ipu, Opcode opcode, const std::string& kernel = "") {
  int n = 0;
  for (const Instruction& step : ipu.instructions)
    n += step.opcode == opcode && (kernel.empty() || step.kernel == kernel);
  return n;
}

// Streams @x (in) and @y (out) of one type, then `body`.
std::string with_streams(const std::string& type, const std::string& body) {
  return "stream @x: " + type + "\nstream @y: " + type +
         " {direction=\"device_to_host\"}\nentry main = @main\n" + body;
}

TEST(Lower, StraightCodeReadsInputsInPlaceAndReusesMemory) {
  auto module = parsed(with_streams("f32[4,3]", R"(
    graph @main() -> () {
      %x = host_load() {stream=@x} : f32[4,3]
      %a = relu(%x) : f32[4,3]
      %b = add(%a, %x) : f32[4,3]
      host_store(%b) {stream=@y}
      return
    })"));
  program::Program p = compare(*module);
  EXPECT_EQ(p.ipus[0].instructions.size(), 5u);
  EXPECT_EQ(p.ipus[0].arena_bytes, 64);  // relu's result; that of add is made where the host wants it
  EXPECT_EQ(p.ipus[0].buffers[0].storage, Storage::kExternal);
}

TEST(Lower, OutputsAreMadeWhereTheHostWantsThem) {
  auto module = parsed(with_streams("f32[4,3]", R"(
    graph @main() -> () {
      %x = host_load() {stream=@x} : f32[4,3]
      %a = exp(%x) : f32[4,3]
      %b = neg(%a) : f32[4,3]
      host_store(%b) {stream=@y}
      host_store(%a) {stream=@y}
      return
    })"));
  const program::Program lowered = compare(*module);
  const program::IpuProgram& ipu = lowered.ipus[0];
  // The place of %a would be asked for before that of %b, which comes first: %a is stored as ever.
  EXPECT_EQ(count(ipu, Opcode::kStreamPlace), 1);
  EXPECT_EQ(ipu.arena_bytes, 64);
}

TEST(Lower, ImagesWithChannelsLastAreReadAndGivenAsTheyLie) {
  auto module = parsed(with_streams("f32[2,4,5,3]", R"(
    graph @main() -> () {
      %x = host_load() {stream=@x} : f32[2,4,5,3]
      %first = transpose(%x) {perm=[0,3,1,2]} : f32[2,3,4,5]:acdb
      %r = relu(%first) : f32[2,3,4,5]:acdb
      %last = transpose(%r) {perm=[0,2,3,1]} : f32[2,4,5,3]
      host_store(%last) {stream=@y}
      return
    })"));
  EXPECT_EQ(count(compare(*module).ipus[0], Opcode::kKernel), 1);
}

TEST(Lower, PartOfAnImageWithChannelsLastIsLaidOutFirst) {
  auto module = parsed(R"(
    stream @x: f32[2,4,5,3]
    stream @y: f32[2,4,2,3] {direction="device_to_host"}
    entry main = @main
    graph @main() -> () {
      %x = host_load() {stream=@x} : f32[2,4,5,3]
      %part = slice(%x) {sizes=[2,4,2,3], starts=[0,0,1,0], steps=[1,1,2,1]} : f32[2,4,2,3]
      %first = transpose(%part) {perm=[0,3,1,2]} : f32[2,3,4,2]:acdb
      %r = relu(%first) : f32[2,3,4,2]:acdb
      %last = transpose(%r) {perm=[0,2,3,1]} : f32[2,4,2,3]
      host_store(%last) {stream=@y}
      return
    })");
  EXPECT_EQ(count(compare(*module).ipus[0], Opcode::kKernel), 2);
}

TEST(Lower, WhatLeavesABranchIsStoredAsEver) {
  auto module = parsed(with_streams("f32[4]", R"(
    graph @main() -> () {
      %x = host_load() {stream=@x} : f32[4]
      %sum = reduce_sum(%x) {dims=[0]} : f32[]
      %zero = constant() {value=dense<f32[]: [0]>} : f32[]
      %c = greater(%sum, %zero) : bool[]
      %r = if(%c, %x) {then=@yes, else=@no} : f32[4]
      host_store(%r) {stream=@y}
      return
    }
    graph @yes(%v: f32[4]) -> f32[4] {
      %w = exp(%v) : f32[4]
      return %w
    }
    graph @no(%v: f32[4]) -> f32[4] {
      %w = neg(%v) : f32[4]
      return %w
    })"));
  EXPECT_EQ(count(compare(*module).ipus[0], Opcode::kStreamPlace), 0);
}

TEST(Lower, ValuesOfAnotherTypeOnTheHostAreStoredAsEver) {
  auto module = parsed(R"(
    stream @x: f32[4]
    stream @y: f32[4] {direction="device_to_host", host_dtype=f64}
    entry main = @main
    graph @main() -> () {
      %x = host_load() {stream=@x} : f32[4]
      %a = exp(%x) : f32[4]
      host_store(%a) {stream=@y}
      return
    })");
  EXPECT_EQ(count(lower(*module, {}).ipus[0], Opcode::kStreamPlace), 0);
}

TEST(Lower, DoesNotOverwriteWhatIsReadLater) {
  auto module = parsed(with_streams("f32[4,3]", R"(
    graph @main() -> () {
      %x = host_load() {stream=@x} : f32[4,3]
      %a = neg(%x) : f32[4,3]
      %b = exp(%a) : f32[4,3]
      %c = mul(%b, %a) : f32[4,3]
      host_store(%c) {stream=@y}
      return
    })"));
  EXPECT_EQ(compare(*module).ipus[0].arena_bytes, 128);
}

TEST(Lower, UpdatesVariablesInPlaceInLoops) {
  auto module = parsed(R"(
    variable @w: f32[8]
    variable @m: f32[8]
    stream @x: f32[8]
    stream @y: f32[8] {direction="device_to_host"}
    entry main = @main
    graph @main() -> () {
      %w = variable.read() {variable=@w} : f32[8]
      %m = variable.read() {variable=@m} : f32[8]
      %w1, %m1 = loop(%w, %m) {body=@step, carried=2, trip=3} : f32[8], f32[8]
      variable.assign(%w1) {variable=@w}
      variable.assign(%m1) {variable=@m}
      return
    }
    graph @step(%i: i32[], %w: f32[8], %m: f32[8]) -> (f32[8], f32[8]) {
      %x = host_load() {stream=@x} : f32[8]
      %p = mul(%w, %x) : f32[8]
      host_store(%p) {stream=@y}
      %m1 = add(%m, %x) : f32[8]
      %w1 = sub(%w, %m1) : f32[8]
      return %w1, %m1
    })");
  LowerOptions options;
  program::Program p = compare(*module, options);
  EXPECT_EQ(count(p.ipus[0], Opcode::kKernel, "copy"), 0);
  EXPECT_EQ(p.ipus[0].arena_bytes, 0);  // %p is made where the host wants it
  EXPECT_TRUE(p.variables[0].written);
}

// A weight of halves with a state of f32, as an optimizer updates them at once: each new value takes the place of the
// operand with elements of its size.
TEST(Lower, UpdatesOfSeveralTypesAreMadeInPlace) {
  auto module = parsed(R"(
    variable @w: f16[8]
    variable @m: f32[8]
    stream @x: f16[8]
    entry main = @main
    graph @main() -> () {
      %w = variable.read() {variable=@w} : f16[8]
      %m = variable.read() {variable=@m} : f32[8]
      %x = host_load() {stream=@x} : f16[8]
      %m1, %w1 = fused_pointwise(%w, %m, %x) {code=[0,-1,-1,-1,0,0,-1,-1,-1,1,0,-1,-1,-1,2,4,1,2,-1,0,5,0,3,-1,0,100,4,-1,-1,0], dtypes=["f32","f16"], outputs=[3,5], values=[0.0,0.0,0.0,0.0,0.0,0.0]} : f32[8], f16[8]
      variable.assign(%w1) {variable=@w}
      variable.assign(%m1) {variable=@m}
      return
    })");
  program::Program p = compare(*module, {});
  EXPECT_EQ(count(p.ipus[0], Opcode::kKernel, "copy"), 0);
  EXPECT_TRUE(p.variables[0].written && p.variables[1].written);
}

TEST(Lower, KeepsTheOldValueWhenItIsReadAfterTheUpdate) {
  auto module = parsed(R"(
    variable @w: f32[8]
    stream @y: f32[8] {direction="device_to_host"}
    entry main = @main
    graph @main() -> () {
      %w = variable.read() {variable=@w} : f32[8]
      %w1 = loop(%w) {body=@step, carried=1, trip=3} : f32[8]
      variable.assign(%w1) {variable=@w}
      return
    }
    graph @step(%i: i32[], %w: f32[8]) -> (f32[8]) {
      %n = exp(%w) : f32[8]
      %o = tanh(%n) : f32[8]
      %d = sub(%o, %w) : f32[8]
      host_store(%d) {stream=@y}
      return %o
    })");
  LowerOptions options;
  compare(*module, options);
}

TEST(Lower, CarriedValuesMayChangePlaces) {
  auto module = parsed(R"(
    variable @a: f32[8]
    variable @b: f32[8]
    variable @c: f32[8]
    entry main = @main
    graph @main() -> () {
      %a = variable.read() {variable=@a} : f32[8]
      %b = variable.read() {variable=@b} : f32[8]
      %c = variable.read() {variable=@c} : f32[8]
      %a1, %b1, %c1 = loop(%a, %b, %c) {body=@step, carried=3, trip=4} : f32[8], f32[8], f32[8]
      variable.assign(%b1) {variable=@a}
      variable.assign(%a1) {variable=@b}
      variable.assign(%c1) {variable=@c}
      return
    }
    graph @step(%i: i32[], %a: f32[8], %b: f32[8], %c: f32[8]) -> (f32[8], f32[8], f32[8]) {
      %s = add(%a, %c) : f32[8]
      return %b, %s, %a
    })");
  compare(*module);
}

TEST(Lower, VariablesMaySwapWithoutALoop) {
  auto module = parsed(R"(
    variable @a: f32[8]
    variable @b: f32[8]
    variable @r: f32[8]
    stream @y: f32[8] {direction="device_to_host"}
    entry main = @main
    graph @main() -> () {
      %a = variable.read() {variable=@a} : f32[8]
      %b = variable.read() {variable=@b} : f32[8]
      %r = variable.read() {variable=@r} : f32[8]
      variable.assign(%b) {variable=@a}
      variable.assign(%a) {variable=@b}
      %s = add(%a, %r) : f32[8]
      host_store(%s) {stream=@y}
      return
    })");
  program::Program p = compare(*module);
  EXPECT_FALSE(p.variables[2].written);
}

TEST(Lower, ViewsAreReadInPlaceAndMaterialisedWhereNeeded) {
  auto module = parsed(R"(
    stream @x: f32[4,6]
    stream @y: f32[6,2] {direction="device_to_host"}
    stream @z: f32[2,3] {direction="device_to_host"}
    stream @u: f32[3,4,6] {direction="device_to_host"}
    stream @v: f32[12,2] {direction="device_to_host"}
    entry main = @main
    graph @main() -> () {
      %x = host_load() {stream=@x} : f32[4,6]
      %t = transpose(%x) {perm=[1,0]} : f32[6,4]
      %s = slice(%t) {starts=[0,1], sizes=[6,2], steps=[1,2]} : f32[6,2]
      %n = neg(%s) : f32[6,2]
      host_store(%n) {stream=@y}
      %c = slice(%x) {starts=[2,3], sizes=[2,3], steps=[1,1]} : f32[2,3]
      host_store(%c) {stream=@z}
      %e = expand(%x) {shape=[3,4,6]} : f32[3,4,6]
      %f = add(%e, %x) : f32[3,4,6]
      host_store(%f) {stream=@u}
      %r = reshape(%t) {shape=[12,2]} : f32[12,2]
      host_store(%r) {stream=@v}
      return
    })");
  program::Program p = compare(*module);
  EXPECT_EQ(count(p.ipus[0], Opcode::kKernel, "copy"), 2);  // the stored slice, the reshaped transpose
}

TEST(Lower, AViewKeepsItsBaseAlive) {
  auto module = parsed(with_streams("f32[4,6]", R"(
    graph @main() -> () {
      %x = host_load() {stream=@x} : f32[4,6]
      %a = neg(%x) : f32[4,6]
      %r = reshape(%a) {shape=[6,4]} : f32[6,4]
      %b = exp(%a) : f32[4,6]
      %c = tanh(%b) : f32[4,6]
      %q = reshape(%r) {shape=[4,6]} : f32[4,6]
      %d = add(%c, %q) : f32[4,6]
      host_store(%d) {stream=@y}
      return
    })"));
  EXPECT_EQ(compare(*module).ipus[0].arena_bytes, 256);
}

TEST(Lower, BranchesOnData) {
  auto module = parsed(R"(
    variable @w: f32[8]
    stream @c: bool[]
    stream @y: f32[8] {direction="device_to_host"}
    entry main = @main
    graph @main() -> () {
      %w = variable.read() {variable=@w} : f32[8]
      %w1 = loop(%w) {body=@step, carried=1, trip=4} : f32[8]
      variable.assign(%w1) {variable=@w}
      return
    }
    graph @step(%i: i32[], %w: f32[8]) -> (f32[8]) {
      %c = host_load() {stream=@c} : bool[]
      %r, %k = if(%c, %w) {then=@yes, else=@no} : f32[8], f32[8]
      %y = add(%r, %k) : f32[8]
      host_store(%y) {stream=@y}
      return %r
    }
    graph @yes(%w: f32[8]) -> (f32[8], f32[8]) {
      %n = neg(%w) : f32[8]
      %m = abs(%w) : f32[8]
      return %n, %m
    }
    graph @no(%w: f32[8]) -> (f32[8], f32[8]) {
      %n = exp(%w) : f32[8]
      return %w, %n
    })");
  LowerOptions options;
  program::Program p = compare(*module, options);
  EXPECT_EQ(count(p.ipus[0], Opcode::kBranchIfNot), 1);
}

TEST(Lower, ConditionsOnTheLoopIndexBecomeCounterCompares) {
  auto module = parsed(R"(
    variable @w: f32[8]
    entry main = @main
    graph @main() -> () {
      %w = variable.read() {variable=@w} : f32[8]
      %w1 = loop(%w) {body=@step, carried=1, trip=6} : f32[8]
      variable.assign(%w1) {variable=@w}
      return
    }
    graph @step(%i: i32[], %w: f32[8]) -> (f32[8]) {
      %two = constant() {value=dense<i32[]: [2]>} : i32[]
      %five = constant() {value=dense<i32[]: [5]>} : i32[]
      %from = greater_equal(%i, %two) : bool[]
      %to = less(%i, %five) : bool[]
      %c = logical_and(%from, %to) : bool[]
      %r = if(%c, %w) {then=@yes, else=@no} : f32[8]
      return %r
    }
    graph @yes(%w: f32[8]) -> (f32[8]) {
      %m = add(%w, %w) : f32[8]
      return %m
    }
    graph @no(%w: f32[8]) -> (f32[8]) {
      return %w
    })");
  program::Program p = compare(*module);
  // loop, branch, add, end: the condition's ops and the untouched branch are gone.
  ASSERT_EQ(p.ipus[0].instructions.size(), 4u);
  EXPECT_EQ(p.ipus[0].instructions[1].opcode, Opcode::kBranchUnlessCounter);
  EXPECT_EQ(p.ipus[0].instructions[1].low, 2);
  EXPECT_EQ(p.ipus[0].instructions[1].high, 5);
  EXPECT_EQ(p.ipus[0].arena_bytes, 0);
}

TEST(Lower, ScattersOverIpusWithQueuesAndNothingElse) {
  auto module = parsed(R"(
    variable @w: f32[8] {ipu=1}
    stream @x: f32[8]
    stream @y: f32[8] {direction="device_to_host", ipu=1}
    entry main = @main
    graph @main() -> () {
      %w = variable.read() {variable=@w | ipu=1} : f32[8]
      %w1 = loop(%w) {body=@step, carried=1, trip=5} : f32[8]
      variable.assign(%w1) {variable=@w | ipu=1}
      return
    }
    graph @step(%i: i32[], %w: f32[8]) -> (f32[8]) {
      %x = host_load() {stream=@x | ipu=0} : f32[8]
      %a = neg(%x) {| ipu=0} : f32[8]
      %b = exp(%x) {| ipu=0} : f32[8]
      %d = ipu_copy(%a) {from=0, to=1 | ipu=1} : f32[8]
      %e = ipu_copy(%b) {from=0, to=1 | ipu=1} : f32[8]
      %w1 = add(%w, %d) {| ipu=1} : f32[8]
      %o = mul(%w1, %e) {| ipu=1} : f32[8]
      host_store(%o) {stream=@y | ipu=1}
      return %w1
    })");
  LowerOptions options;
  program::Program p = compare(*module, options);
  ASSERT_EQ(p.ipus.size(), 2u);
  EXPECT_EQ(count(p.ipus[0], Opcode::kPush), 2);
  EXPECT_EQ(count(p.ipus[1], Opcode::kPop), 2);
  EXPECT_EQ(p.variables[0].ipu, 1);
  for (const program::Buffer& buffer : p.ipus[0].buffers) EXPECT_NE(buffer.storage, Storage::kVariable);
  // The second value is taken over only after the first was used.
  std::vector<Opcode> order;
  for (const Instruction& step : p.ipus[1].instructions)
    if (step.opcode == Opcode::kPop || step.kernel == "pointwise") order.push_back(step.opcode);
  EXPECT_EQ(order, (std::vector<Opcode>{Opcode::kPop, Opcode::kKernel, Opcode::kPop, Opcode::kKernel}));
  // The first is sent before the second is computed.
  order.clear();
  for (const Instruction& step : p.ipus[0].instructions)
    if (step.opcode == Opcode::kPush || step.kernel == "pointwise") order.push_back(step.opcode);
  EXPECT_EQ(order, (std::vector<Opcode>{Opcode::kKernel, Opcode::kPush, Opcode::kKernel, Opcode::kPush}));
}

TEST(Lower, RefusesCrossingsWithoutACopy) {
  auto module = parsed(with_streams("f32[8]", R"(
    graph @main() -> () {
      %x = host_load() {stream=@x | ipu=0} : f32[8]
      %a = neg(%x) {| ipu=1} : f32[8]
      host_store(%a) {stream=@y | ipu=1}
      return
    })"));
  try {
    lower(*module, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("%x of graph @main is on IPU 0 and read on IPU 1 by 'neg'"),
              std::string::npos)
        << error.message();
  }
}

TEST(Lower, RingsAreQueuesAndStashesFillAhead) {
  auto module = parsed(R"(
    stream @x: f32[8]
    stream @y: f32[8] {direction="device_to_host", ipu=1}
    ring @stash: f32[8] {capacity=2}
    ring @channel: f32[8] {to=1}
    entry main = @main
    graph @main() -> () {
      loop() {body=@step, carried=0, trip=4}
      return
    }
    graph @step(%i: i32[]) -> () {
      %x = host_load() {stream=@x | ipu=0} : f32[8]
      ring.push(%x) {ring=@stash | ipu=0}
      %a = neg(%x) {| ipu=0} : f32[8]
      %s = ring.pop() {ring=@stash | ipu=0} : f32[8]
      %b = mul(%a, %s) {| ipu=0} : f32[8]
      ring.push(%b) {ring=@channel | ipu=0}
      %c = ring.pop() {ring=@channel | ipu=1} : f32[8]
      %d = abs(%c) {| ipu=1} : f32[8]
      host_store(%d) {stream=@y | ipu=1}
      return
    })");
  LowerOptions options;
  program::Program p = compare(*module, options);
  EXPECT_EQ(p.rings.size(), 2u);
  EXPECT_EQ(p.rings[0].capacity, 2);
}

TEST(Lower, WhatNobodyNeedsIsNotThere) {
  auto module = parsed(R"(
    stream @x: f32[8]
    stream @y: f32[8] {direction="device_to_host"}
    entry main = @main
    graph @main() -> () {
      %x = host_load() {stream=@x | ipu=0} : f32[8]
      %dead = exp(%x) {| ipu=0} : f32[8]
      %sent = ipu_copy(%dead) {from=0, to=1 | ipu=1} : f32[8]
      %far = neg(%sent) {| ipu=1} : f32[8]
      %r, %s = loop(%x, %dead) {body=@step, carried=2, trip=3} : f32[8], f32[8]
      host_store(%r) {stream=@y | ipu=0}
      return
    }
    graph @step(%i: i32[], %a: f32[8], %b: f32[8]) -> (f32[8], f32[8]) {
      %a1 = neg(%a) {| ipu=0} : f32[8]
      %b1 = exp(%b) {| ipu=0} : f32[8]
      return %a1, %b1
    })");
  program::Program p = compare(*module);
  ASSERT_EQ(p.ipus.size(), 2u);
  EXPECT_TRUE(p.ipus[1].instructions.empty());
  EXPECT_EQ(count(p.ipus[0], Opcode::kPush), 0);
  EXPECT_EQ(count(p.ipus[0], Opcode::kKernel, "pointwise"), 1);  // neg
}

TEST(Lower, NamesTheLineOfAnOpWithoutKernel) {
  auto module = ir::parse(with_streams("f32[8]", R"(
    graph @main() -> () {
      %x = host_load() {stream=@x} : f32[8]
      %a = "user::op"(%x) : f32[8] loc("model.py":41, "layer3")
      host_store(%a) {stream=@y}
      return
    })"));
  try {
    lower(*module, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupportedOps);
    EXPECT_EQ(error.user_line(), "model.py:41");
    EXPECT_NE(error.message().find("'user::op' cannot run on f32[8]"), std::string::npos) << error.message();
  }
}

TEST(Lower, OutputModesReachTheStreams) {
  auto module = parsed(R"(
    stream @x: f32[8]
    stream @y: f32[8] {direction="device_to_host", mode="every_n", period=2}
    entry main = @main
    graph @main() -> () {
      loop() {body=@step, carried=0, trip=4}
      return
    }
    graph @step(%i: i32[]) -> () {
      %x = host_load() {stream=@x} : f32[8]
      host_store(%x) {stream=@y}
      return
    })");
  LowerOptions options;
  program::Program p = lower(*module, options);
  EXPECT_EQ(p.streams[1].mode, program::StreamMode::kEveryN);
  EXPECT_EQ(p.streams[1].period, 2);
}

}  // namespace
}  // namespace ipu::lowering
