#include "program/check_io_tiles.h"

#include <gtest/gtest.h>

#include "support/error.h"
#include "tests/program/program_writer.h"
#include "tests/thrown.h"

namespace ipu::program {
namespace {

// I/O tiles of IPU 0 load three elements for it.
Program loads() {
  Program p;
  p.ipus.resize(2);
  p.ipus[1].io_of = 0;
  const int x = add_stream(p, "x", StreamMode::kInput, f32({4}), 1);
  const int q = add_ring(p, "q", 16, 1, 1, 0);
  IpuWriter ipu(p, 0), io(p, 1);
  const Operand a = ipu.arena(f32({4})), b = io.external(f32({4}));
  ipu.loop(3);
  ipu.pop(q, a);
  ipu.end_loop();
  io.loop(3);
  io.load(x, b);
  io.push(q, b);
  io.end_loop();
  return p;
}

TEST(CheckIoTiles, accepts_loops_that_move_elements_and_says_whose_tiles_they_are) {
  Program p = loads();
  check_program(p);
  for (const IpuProgram& part : p.ipus) check_plan(part);
  check_deadlock(p);
  EXPECT_EQ(p.ipu_count(), 1);
  EXPECT_EQ(p.ipu_of(1), 0);
  EXPECT_EQ(describe(p, 1, 1), "I/O tiles of IPU 0, instruction 1 (stream_load)");
  EXPECT_NE(print(p).find("io tiles of ipu 0"), std::string::npos);
}

TEST(CheckIoTiles, refuses_a_step_that_computes) {
  Program p = loads();
  IpuWriter io(p, 1);
  const Operand a = io.arena(f32({4}));
  io.kernel("copy", {a}, {a});
  EXPECT_EQ(
      message_of([&] { check_program(p); }),
      "invalid program [IPU-E411]: I/O tiles of IPU 0, instruction 4 (kernel copy): I/O tiles only move elements");
}

TEST(CheckIoTiles, refuses_tiles_of_no_ipu_and_an_ipu_behind_them) {
  for (const int io_of : {1, 7}) {
    Program p = loads();
    p.ipus[1].io_of = io_of;
    EXPECT_EQ(message_of([&] { check_program(p); }),
              "invalid program [IPU-E411]: part 1 of 2 runs on I/O tiles of IPU " + std::to_string(io_of) +
                  "; the programs of 1 IPUs come first");
  }
  Program p = loads();
  std::swap(p.ipus[0].io_of, p.ipus[1].io_of);
  EXPECT_EQ(
      message_of([&] { check_program(p); }),
      "invalid program [IPU-E411]: part 0 of 2 runs on I/O tiles of IPU 0; the programs of 1 IPUs come first");
  p.ipus[1].io_of = 1;
  EXPECT_NE(message_of([&] { check_program(p); }), "");
}

TEST(CheckIoTiles, holds_no_variable) {
  Program p = loads();
  Variable w;
  w.name = "w";
  w.spec = f32({4});
  w.ipu = 1;
  p.variables.push_back(w);
  EXPECT_EQ(message_of([&] { check_program(p); }),
            "invalid program [IPU-E411]: variable w is on no IPU of the program");
}

TEST(CheckIoTiles, a_ring_that_is_never_emptied_is_a_deadlock_that_names_them) {
  Program p = loads();
  std::erase_if(p.ipus[0].instructions, [](const Instruction& step) { return step.opcode == Opcode::kPop; });
  p.ipus[0].instructions[0].target = 1;
  const std::string message = message_of([&] { check_deadlock(p); });
  EXPECT_NE(message.find(
                "I/O tiles of IPU 0, instruction 2 (push) waits for IPU 0: ring q is full with 1 elements"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace ipu::program
