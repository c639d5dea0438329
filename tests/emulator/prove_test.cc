// Programs that are well formed and touch what is not theirs: each is refused before it runs.
#include "emulator/proof/prove.h"

#include <gtest/gtest.h>

#include "emulator/engine.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "support/error.h"
#include "tests/program/program_writer.h"
#include "tests/thrown.h"

namespace ipu::emulator {
namespace {

using program::add_ring;
using program::add_stream;
using program::f32;
using program::Instruction;
using program::IpuWriter;
using program::Operand;
using program::Program;
using program::StreamMode;

// Copies four floats from `offset` floats behind its operand to the result.
class CopyFour final : public kernels::PreparedKernel {
 public:
  explicit CopyFour(int64_t offset) : offset_(offset) {}
  void run(const kernels::KernelCall& call, int) const override {
    for (int64_t i = 0; i < 16; ++i) call.results[0][i] = call.operands[0][offset_ * 4 + i];
  }

 private:
  int64_t offset_;
};

std::unique_ptr<kernels::PreparedKernel> prepare_copy_four(const kernels::KernelRequest& request) {
  return std::make_unique<CopyFour>(request.attributes.integer("offset", 0));
}

kernels::Footprint footprint_of_copy_four(const kernels::KernelRequest& request) {
  kernels::require_counts(request, 1, 1);
  const int64_t begin = 4 * kernels::integer_of(request, "offset", 0);
  return {{{begin, begin + 16}}, {{0, 16}}};
}

IPU_REGISTER_KERNEL("test.copy_four", prepare_copy_four, footprint_of_copy_four);
IPU_REGISTER_KERNEL("test.silent", prepare_copy_four);

void expect_refused(const Program& program, const std::string& why) {
  check_program(program);
  try {
    prove_program(program);
    ADD_FAILURE() << "accepted; expected: " << why;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidProgram);
    EXPECT_NE(error.message().find(why), std::string::npos) << error.message();
  }
}

struct Copy {
  Program program;
  Copy() {
    program.ipus.resize(1);
    in = add_stream(program, "in", StreamMode::kInput, f32({4}));
    out = add_stream(program, "out", StreamMode::kAll, f32({4}));
  }
  IpuWriter writer() { return IpuWriter(program, 0); }
  int in, out;
};

TEST(Prove, AcceptsAStepThatStaysInItsBuffers) {
  Copy c;
  IpuWriter w = c.writer();
  Operand x = w.external(f32({4}), "x"), y = w.arena(f32({4}), "y");
  w.load(c.in, x);
  w.kernel("test.copy_four", {x}, {y});
  w.store(c.out, y);
  prove_program(c.program);
}

TEST(Prove, AKernelThatDoesNotSayWhatItTouchesIsRefused) {
  Copy c;
  IpuWriter w = c.writer();
  Operand x = w.arena(f32({4}), "x"), y = w.arena(f32({4}), "y");
  w.load(c.in, x);
  w.kernel("test.silent", {x}, {y});
  expect_refused(c.program, "this kernel does not say what it touches");
}

TEST(Prove, AStepThatReadsBehindItsBufferIsRefused) {
  for (int64_t offset : {int64_t{1}, int64_t{-1}, int64_t{1} << 40}) {
    Copy c;
    IpuWriter w = c.writer();
    Operand x = w.arena(f32({4}), "x"), y = w.arena(f32({4}), "y");
    w.load(c.in, x);
    w.kernel("test.copy_four", {x}, {y}, {{"offset", offset}});
    w.store(c.out, y);
    expect_refused(c.program, "reads bytes " + std::to_string(offset * 4) + " to " +
                                  std::to_string(offset * 4 + 16) + " of operand 0");
  }
}

TEST(Prove, AStepThatWritesBehindItsBufferIsRefused) {
  Copy c;
  IpuWriter w = c.writer();
  Operand x = w.arena(f32({4}), "x"), y = w.arena(f32({2}), "y");
  w.load(c.in, x);
  w.kernel("test.copy_four", {x}, {y});
  expect_refused(c.program, "writes bytes 0 to 16 of result 0");
}

TEST(Prove, AnAbsentOperandThatIsReadIsRefused) {
  Copy c;
  IpuWriter w = c.writer();
  Operand y = w.arena(f32({4}), "y");
  w.kernel("test.copy_four", {Operand{}}, {y});
  w.store(c.out, y);
  expect_refused(c.program, "reads operand 0, which is absent");
}

TEST(Prove, AnOperandThatIsNotAlignedIsRefused) {
  Copy c;
  IpuWriter w = c.writer();
  Operand x = w.arena(f32({8}), "x"), y = w.arena(f32({4}), "y");
  x.spec = f32({4});
  x.byte_offset = 2;
  w.kernel("test.copy_four", {x}, {y});
  expect_refused(c.program, "not aligned");
}

// The user's tensor of halves is aligned to two bytes.
TEST(Prove, ATensorOfTheUserReadAsLargerElementsIsRefused) {
  Program program;
  program.ipus.resize(1);
  const TensorSpec halves = TensorSpec::plain(DType::kF16, {8});
  const int in = add_stream(program, "in", StreamMode::kInput, halves);
  IpuWriter w(program, 0);
  Operand x = w.external(halves, "x"), y = w.arena(f32({4}), "y");
  w.load(in, x);
  x.spec = f32({4});
  w.kernel("test.copy_four", {x}, {y});
  expect_refused(program, "not aligned");
}

TEST(Prove, AnOperandWithTooManyElementsIsRefused) {
  Copy c;
  IpuWriter w = c.writer();
  Operand x = w.arena(f32({4}), "x"), y = w.arena(f32({4}), "y");
  x.spec.shape = {int64_t{1} << 32, int64_t{1} << 32};
  x.spec.strides = {0, 0};
  w.kernel("test.copy_four", {x}, {y});
  expect_refused(c.program, "too many elements");
}

// The element has 16 bytes; the buffer says 64, so that operands may start behind the user's tensor.
TEST(Prove, ABufferLargerThanTheElementOfItsStreamIsRefused) {
  Copy c;
  IpuWriter w = c.writer();
  Operand x = w.external(f32({4}), "x"), y = w.arena(f32({4}), "y");
  c.program.ipus[0].buffers[x.buffer].bytes = 64;
  w.load(c.in, x);
  Operand behind = x;
  behind.byte_offset = 32;
  w.kernel("test.copy_four", {behind}, {y});
  w.store(c.out, y);
  expect_refused(c.program, "larger than an element of its stream, 16 bytes");
}

TEST(Prove, ABufferLargerThanTheElementOfItsRingIsRefused) {
  Copy c;
  const int ring = add_ring(c.program, "stash", 16, 2, 0, 0);
  IpuWriter w = c.writer();
  Operand x = w.arena(f32({4}), "x"), y = w.external(f32({4}), "y");
  c.program.ipus[0].buffers[y.buffer].bytes = 32;
  w.load(c.in, x);
  w.push(ring, x);
  w.pop(ring, y);
  w.release(ring);
  expect_refused(c.program, "larger than an element of its ring, 16 bytes");
}

TEST(Prove, AnExternalBufferMustBeDefinedOnEveryWay) {
  for (int defined_in : {0, 1, 2}) {  // nowhere, in one arm, in a loop that may not run
    Copy c;
    IpuWriter w = c.writer();
    Operand x = w.external(f32({4}), "x"), y = w.arena(f32({4}), "y"),
            condition = w.arena(program::boolean(), "condition");
    if (defined_in == 1) {
      const int skip = w.branch_if_not(condition);
      w.load(c.in, x);
      w.land(skip);
    } else if (defined_in == 2) {
      w.loop(0);
      w.load(c.in, x);
      w.end_loop();
    }
    w.kernel("test.copy_four", {x}, {y});
    w.store(c.out, y);
    expect_refused(c.program, "reads x, which nothing has defined before");
  }
}

TEST(Prove, AnExternalBufferDefinedInBothArmsIsDefined) {
  Copy c;
  IpuWriter w = c.writer();
  Operand x = w.external(f32({4}), "x"), y = w.arena(f32({4}), "y"),
          condition = w.arena(program::boolean(), "condition");
  const int otherwise = w.branch_if_not(condition);
  w.load(c.in, x);
  const int end = w.jump();
  w.land(otherwise);
  w.load(c.in, x);
  w.land(end);
  w.kernel("test.copy_four", {x}, {y});
  w.store(c.out, y);
  prove_program(c.program);
}

// A program of two replicas with one collective from x to y.
struct Meeting {
  Program program;
  Meeting(const std::string& kernel, Shape x, Shape y, Attributes attributes = {}) {
    program.ipus.resize(1);
    program.replicas = 2;
    IpuWriter w(program, 0);
    Instruction step;
    step.opcode = program::Opcode::kCollective;
    step.kernel = kernel;
    step.attributes = std::move(attributes);
    step.operands = {w.arena(f32(std::move(x)), "x")};
    step.results = {w.arena(f32(std::move(y)), "y")};
    program.ipus[0].instructions.push_back(step);
  }
};

TEST(Prove, ACollectiveIsHeldAgainstAllMembersOfItsGroup) {
  prove_program(Meeting("all_reduce", {6}, {6}).program);
  prove_program(Meeting("reduce_scatter", {5}, {3}).program);
  prove_program(Meeting("all_gather", {3}, {5}, {{"form", std::string("shape")}}).program);
  expect_refused(Meeting("all_reduce", {6}, {3}).program, "has a result of another form than its operand");
  expect_refused(Meeting("all_reduce", {6}, {6}, {{"op", std::string("and")}}).program,
                 "reduces elements of a type it cannot, or by an operator that is none");
  expect_refused(Meeting("all_reduce", {6}, {6}, {{"op", int64_t{1}}}).program,
                 "has attribute 'op' of another kind");
  expect_refused(Meeting("reduce_scatter", {6}, {2}).program, "has a result that is no shard of its operand");
  expect_refused(Meeting("all_gather", {3}, {7}, {{"form", std::string("shape")}}).program,
                 "has an operand that is no shard of its result");
  expect_refused(Meeting("all_gather", {3}, {9}, {{"dim", int64_t{0}}}).program,
                 "has a result of another shape than its operand gives");
  expect_refused(Meeting("all_gather", {3}, {6}, {{"dim", int64_t{1}}}).program, "dim");
  expect_refused(Meeting("all_gather", {3}, {6}, {{"form", std::string("spiral")}}).program,
                 "gathers in a form that is none");
  expect_refused(Meeting("replica_slice", {5}, {2}, {{"dim", int64_t{0}}}).program,
                 "cuts a dimension that does not divide among the members");
  expect_refused(Meeting("broadcast", {3}, {3}, {{"root", int64_t{2}}}).program,
                 "broadcasts from a member that is not there");
  expect_refused(Meeting("broadcast", {3}, {3}, {{"root", int64_t{-1}}}).program,
                 "broadcasts from a member that is not there");
  expect_refused(
      Meeting("all_to_all", {3, 4}, {6, 4}, {{"split_dim", int64_t{1}}, {"concat_dim", int64_t{0}}}).program,
      "has a result of another shape than its operand gives");
}

TEST(Prove, ACollectiveIsOneOfTheList) {
  auto why = [](const Meeting& meeting) { return message_of([&] { check_program(meeting.program); }); };
  EXPECT_NE(why(Meeting("copy", {3}, {3})).find("unknown collective 'copy'"), std::string::npos);
  EXPECT_NE(why(Meeting("all_reduce", {3}, {3}, {{"group_size", int64_t{3}}}))
                .find("its grouping of size 3 and stride 1 does not divide 2 replicas"),
            std::string::npos);
  EXPECT_NE(why(Meeting("all_reduce", {3}, {3}, {{"group_size", 0.5}})).find("group_size is no number"),
            std::string::npos);
  Meeting job("all_reduce", {3}, {3}, {{"group_size", int64_t{3}}});
  job.program.processes = 3;
  check_program(job.program);
  prove_program(job.program);
  Meeting gaps("all_reduce", {3}, {3});
  gaps.program.ipus[0].buffers[0].bytes = 24;
  gaps.program.ipus[0].instructions[0].operands[0].spec.strides = {2};
  EXPECT_NE(why(gaps).find("operand is not contiguous"), std::string::npos);
}

TEST(Prove, ASlotThatWasNotTakenCannotBeReleased) {
  Copy c;
  const int ring = add_ring(c.program, "stash", 16, 2, 0, 0);
  IpuWriter w = c.writer();
  w.release(ring);
  Engine engine(std::make_shared<const Program>(c.program), {.threads = 1});
  std::vector<float> data(4);
  const StreamBinding bindings[] = {{reinterpret_cast<std::byte*>(data.data()), 1},
                                    {reinterpret_cast<std::byte*>(data.data()), 1}};
  EXPECT_THROW(engine.run(bindings), Error);
}

}  // namespace
}  // namespace ipu::emulator
