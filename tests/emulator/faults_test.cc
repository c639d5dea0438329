// Faults on demand and floating-point exceptions: the rules as text, and what a check of values sees.
#include "emulator/faults/faults.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "emulator/float_check.h"
#include "support/device_error.h"

namespace ipu::emulator {
namespace {

TEST(Faults, RulesAreReadWithTheirConditions) {
  const std::vector<FaultRule> rules = parse_faults(
      " PARTITION_RESET@run=2, ipu=1,replica=3,step=kernel ;slow_link:250@step=push;; "
      "corrupt@stream=x,times=0");
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0].action, "PARTITION_RESET");
  EXPECT_EQ(rules[0].run, 2);
  EXPECT_EQ(rules[0].ipu, 1);
  EXPECT_EQ(rules[0].replica, 3);
  EXPECT_EQ(rules[0].step, "kernel");
  EXPECT_EQ(rules[0].times, 1);
  EXPECT_EQ(rules[1].kind, FaultRule::Kind::kSlowLink);
  EXPECT_EQ(rules[1].microseconds, 250);
  EXPECT_EQ(rules[1].times, 0);
  EXPECT_EQ(rules[2].kind, FaultRule::Kind::kCorrupt);
  EXPECT_EQ(rules[2].stream, "x");
  EXPECT_TRUE(parse_faults("").empty());
}

TEST(Faults, AllocationsFailAsOftenAsAskedFor) {
  const int64_t number = add_faults(parse_faults("allocation@ipu=2,times=2"));
  fault_before_allocation(1);
  EXPECT_THROW(fault_before_allocation(2), Error);
  EXPECT_THROW(fault_before_allocation(2), Error);
  fault_before_allocation(2);
  remove_faults(number);
  EXPECT_FALSE(faults_are_set());
}

TEST(Faults, RecoveryIsForgottenWithTheRules) {
  program::Program program;
  program.ipus.resize(1);
  program.ipus[0].instructions.resize(1);
  const int64_t number = add_faults(parse_faults("FULL_RESET@run=1"));
  EXPECT_THROW(fault_before_step(program, 0, 0, 0, begin_faulty_run()), DeviceError);
  EXPECT_THROW(require_usable_system(), DeviceError);
  EXPECT_THROW(recover("LINK_RESET", 0), Error);
  EXPECT_THROW(recover("FULL_RESET", 1), Error);
  recover("FULL_RESET", 0);
  require_usable_system();
  fault_before_step(program, 0, 0, 0, begin_faulty_run());
  remove_faults(number);
}

TEST(Faults, InnerRulesAreAddedAndTakenAway) {
  program::Program program;
  program.ipus.resize(1);
  program.ipus[0].instructions.resize(1);
  auto run = [&] { fault_before_step(program, 0, 0, 0, begin_faulty_run()); };
  const int64_t outer = add_faults(parse_faults("IPU_RESET@run=3"));
  run();
  const int64_t inner = add_faults(parse_faults("FULL_RESET@run=1"));
  EXPECT_THROW(run(), DeviceError);
  remove_faults(inner);
  require_usable_system();           // as it was before the inner rules
  EXPECT_THROW(run(), DeviceError);  // the third run since the outer rules
  remove_faults(outer);
  EXPECT_FALSE(faults_are_set());
  run();
}

TEST(Faults, DamageInTransferIsFoundByChecksumAndLeavesTheDataAlone) {
  program::Program program;
  program.ipus.resize(1);
  program.streams.push_back({"x", program::StreamMode::kInput, TensorSpec::plain(DType::kF32, {4})});
  program::Instruction load;
  load.opcode = program::Opcode::kStreamLoad;
  load.object = 0;
  program.ipus[0].instructions.push_back(load);
  std::vector<std::byte> data(16, std::byte{7});
  const int64_t number = add_faults(parse_faults("corrupt@run=2,stream=x"));
  fault_in_transfer(program, 0, 0, 0, begin_faulty_run(), data);
  EXPECT_THROW(fault_in_transfer(program, 0, 0, 0, begin_faulty_run(), data), DeviceError);
  EXPECT_THROW(require_usable_system(), DeviceError);
  EXPECT_EQ(data, std::vector<std::byte>(16, std::byte{7}));
  recover("LINK_RESET", 0);
  const int64_t run = begin_faulty_run();
  fault_in_transfer(program, 0, 0, 0, run, data);
  fault_in_transfer(program, 0, 0, 0, run, {});
  remove_faults(number);
}

class FloatCheck : public testing::Test {
 protected:
  std::string check(std::vector<float> operand, std::vector<float> result, Attributes attributes = {}) {
    program::Instruction step;
    const auto n = static_cast<int64_t>(operand.size());
    step.operands.push_back({0, 0, TensorSpec::plain(DType::kF32, {n})});
    step.results.push_back({1, 0, TensorSpec::plain(DType::kF32, {static_cast<int64_t>(result.size())})});
    step.attributes = std::move(attributes);
    std::byte* pointers[] = {reinterpret_cast<std::byte*>(operand.data()),
                             reinterpret_cast<std::byte*>(result.data())};
    return float_exception(step, floats_in(step, pointers), pointers);
  }
  static constexpr float kInf = std::numeric_limits<float>::infinity();
};

TEST_F(FloatCheck, OnlyWhatIsNewCounts) {
  EXPECT_EQ(check({1, 2}, {3, -4}), "");
  EXPECT_NE(check({1, 2}, {3, NAN}).find("invalid operation"), std::string::npos);
  EXPECT_NE(check({1, kInf}, {3, NAN}).find("invalid operation"), std::string::npos);
  EXPECT_EQ(check({1, NAN}, {3, NAN}), "");
  EXPECT_NE(check({1, 2}, {-kInf, 0}).find("overflow"), std::string::npos);
  EXPECT_EQ(check({1, kInf}, {-kInf, 0}), "");
}

TEST_F(FloatCheck, ConstantsOfTheStepAreOperands) {
  EXPECT_EQ(check({1, 2}, {-kInf, 0}, {{"values", std::vector<double>{-INFINITY, 1.0}}}), "");
}

}  // namespace
}  // namespace ipu::emulator
