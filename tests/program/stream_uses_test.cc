// How many elements a run moves, and where they lie in the host's arrays.
#include "program/stream_uses.h"

#include <gtest/gtest.h>

#include "program/host_elements.h"
#include "support/error.h"
#include "tests/program/program_writer.h"

namespace ipu::program {
namespace {

// One input that is loaded as the test says.
class StreamUses : public testing::Test {
 protected:
  StreamUses() {
    program_.ipus.resize(1);
    in_ = add_stream(program_, "in", StreamMode::kInput, f32({4}));
    writer_.emplace(program_, 0);
    x_ = writer_->arena(f32({4}), "x");
    condition_ = writer_->arena(boolean(), "condition");
  }
  void load() { writer_->load(in_, x_); }
  StreamUse use(int entry = 0) const { return stream_uses(program_, entry)[in_]; }
  void expect(int64_t elements, bool is_exact) {
    check_program(program_);
    EXPECT_EQ(use().elements, elements);
    EXPECT_EQ(use().is_exact, is_exact);
  }

  Program program_;
  int in_ = 0;
  std::optional<IpuWriter> writer_;
  Operand x_, condition_;
};

TEST_F(StreamUses, LoopsMultiplyAndAddUp) {
  load();
  writer_->loop(3);
  load();
  writer_->loop(5);
  load();
  writer_->end_loop();
  writer_->end_loop();
  expect(1 + 3 + 15, true);
}
TEST_F(StreamUses, ALoopWithoutTripsMovesNothing) {
  writer_->loop(0);
  load();
  writer_->end_loop();
  expect(0, true);
}
TEST_F(StreamUses, GuardsOnCountersCutTheTrips) {
  writer_->loop(5);
  const int fill = writer_->branch_unless(writer_->counter(), 0, 3);
  const int late = writer_->branch_unless(writer_->counter(), 1, 9);
  load();
  writer_->land(late);
  writer_->land(fill);
  writer_->end_loop();
  expect(2, true);
}
TEST_F(StreamUses, TheOtherBranchTakesTheOtherTrips) {
  writer_->loop(10);
  const int otherwise = writer_->branch_unless(writer_->counter(), 2, 5);
  const int end = writer_->jump();
  writer_->land(otherwise);
  load();
  writer_->land(end);
  writer_->end_loop();
  expect(7, true);
}
TEST_F(StreamUses, BranchesOnValuesGiveABound) {
  writer_->loop(4);
  const int otherwise = writer_->branch_if_not(condition_);
  load();
  const int end = writer_->jump();
  writer_->land(otherwise);
  load();
  load();
  writer_->land(end);
  writer_->end_loop();
  expect(12, false);
}
TEST_F(StreamUses, AConditionElsewhereLeavesTheCountExact) {
  const int otherwise = writer_->branch_if_not(condition_);
  writer_->land(otherwise);
  load();
  expect(1, true);
}
TEST_F(StreamUses, ALoopThatValuesEndGivesABoundForAllOfIt) {
  writer_->loop(6);
  load();
  const int leave = writer_->branch_if_not(condition_);
  writer_->end_loop();
  writer_->land(leave);
  expect(6, false);
}
TEST_F(StreamUses, MoreThanCanBeCountedIsRefused) {
  for (int i = 0; i < 3; ++i) writer_->loop(int64_t{1} << 40);
  load();
  for (int i = 0; i < 3; ++i) writer_->end_loop();
  EXPECT_EQ(use().elements, INT64_MAX);
  EXPECT_THROW(check_program(program_), Error);
}
TEST_F(StreamUses, WhatNestsTooDeeplyIsRefused) {
  for (int i = 0; i < 129; ++i) writer_->loop(1);
  load();
  for (int i = 0; i < 129; ++i) writer_->end_loop();
  EXPECT_THROW(use(), Error);
}
TEST_F(StreamUses, EntryPointsHaveCountsOfTheirOwn) {
  load();
  program_.entry_points = {"main", "twice"};
  program_.ipus[0].entries = {0, 1};
  load();
  load();
  check_program(program_);
  EXPECT_EQ(use(0).elements, 1);
  EXPECT_EQ(use(1).elements, 2);
}

TEST(HostElements, APeriodDividesWhatARunGives) {
  Program program;
  program.replicas = 2;
  Stream stream{"y", StreamMode::kEveryN, f32({3}), DType::kF32, 2, 3};
  EXPECT_EQ(HostElements(program, stream, {12, true}).count(), 12);
  EXPECT_EQ(HostElements(program, stream, {12, true}).shape({3}), (Shape{36}));
  try {
    HostElements(program, stream, {9, true});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("stream y gives every 2th block of 3 elements, and a run has 9 elements"),
              std::string::npos);
  }
}
TEST(HostElements, TheLastOneIsTheLastThatWasGivenWhereValuesDecide) {
  Program program;
  const Stream stream{"y", StreamMode::kFinal, f32({3})};
  const HostElements exact(program, stream, {4, true}), open(program, stream, {4, false});
  EXPECT_EQ(exact.target(2, 0).index, -1);
  EXPECT_EQ(exact.target(3, 0).index, 0);
  EXPECT_EQ(open.target(2, 0).index, 0);
}

TEST_F(StreamUses, TrafficIsBytesTimesTrips) {
  program_.remote_buffers.push_back({"b", f32({4}), 2, 0});
  const Operand number = writer_->arena(TensorSpec::plain(DType::kU32, {}), "number");
  auto add = [&](Opcode opcode, std::vector<Operand> operands, std::vector<Operand> results,
                 const std::string& kernel = "") {
    Instruction step;
    step.opcode = opcode;
    step.kernel = kernel;
    step.operands = std::move(operands);
    step.results = std::move(results);
    step.object = 0;
    program_.ipus[0].instructions.push_back(step);
  };
  const Operand whole = writer_->arena(f32({8}), "whole");
  writer_->loop(3);
  add(Opcode::kRemoteLoad, {number}, {x_});
  writer_->loop(5);
  add(Opcode::kRemoteStore, {x_, number}, {});
  add(Opcode::kCollective, {x_}, {whole}, "all_gather");
  add(Opcode::kCollective, {x_}, {x_}, "all_reduce");
  writer_->end_loop();
  writer_->end_loop();
  const Traffic moved = traffic(program_, 0);
  EXPECT_EQ(moved.remote_loaded, 3 * 16);
  EXPECT_EQ(moved.remote_stored, 15 * 16);
  EXPECT_EQ(moved.gathered, 15 * 32);
  EXPECT_TRUE(moved.is_exact);
}
TEST_F(StreamUses, TrafficThatValuesDecideIsABound) {
  program_.remote_buffers.push_back({"b", f32({4}), 1, 0});
  const Operand number = writer_->arena(TensorSpec::plain(DType::kU32, {}), "number");
  const int skip = writer_->branch_if_not(condition_);
  Instruction step;
  step.opcode = Opcode::kRemoteLoad;
  step.operands = {number};
  step.results = {x_};
  step.object = 0;
  program_.ipus[0].instructions.push_back(step);
  writer_->land(skip);
  const Traffic moved = traffic(program_, 0);
  EXPECT_EQ(moved.remote_loaded, 16);
  EXPECT_FALSE(moved.is_exact);
}

}  // namespace
}  // namespace ipu::program
