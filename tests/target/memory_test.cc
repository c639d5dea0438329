#include <gtest/gtest.h>

#include <cmath>

#include "target/machine_of_system.h"
#include "target/memory/code_bytes.h"
#include "target/memory/tile_sums.h"

namespace ipu::target {
namespace {

const Machine& toy() { return *find_machine("toy"); }

TEST(TileSums, of_small_tensors_are_on_few_tiles_one_after_the_other) {
  TileSums sums(toy());
  for (int i = 0; i < 8; ++i) sums.add_linear(256);  // two tiles each
  EXPECT_EQ(sums.most(), 128);
  sums.add_linear(4);  // the first tile again
  EXPECT_EQ(sums.most(), 132);
  EXPECT_EQ(sums.total(), 8 * 256 + 4);
}

TEST(TileSums, of_large_tensors_are_equal_in_whole_vectors) {
  TileSums sums(toy());
  sums.add_linear(16 * 1000 + 8);
  EXPECT_EQ(sums.most(), 1008);
  EXPECT_EQ(sums.total(), 16 * 1000 + 8);
}

TEST(TileSums, of_planned_tensors_leave_tiles_empty) {
  TileSums sums(toy());
  sums.add_planned(12 * 100, 12);
  EXPECT_EQ(sums.most(), 100);
}

TEST(TileSums, go_around_at_the_last_tile) {
  TileSums sums(toy());
  sums.add_linear(15 * 128);
  sums.add_linear(3 * 128);  // tiles 15, 0 and 1
  EXPECT_EQ(sums.most(), 256);
  EXPECT_EQ(sums.total(), 18 * 128);
}

// What is published of a norm and of a softmax is what their works make, within 30 %.
TEST(CodeBytes, of_a_norm_and_a_softmax_are_near_what_is_published) {
  const auto sum = [](std::initializer_list<WorkForm> forms) {
    CodeBytes bytes;
    for (const WorkForm& form : forms) bytes += code_bytes(form);
    return bytes;
  };
  const ReductionWork reduction{.elements = 1, .sums = 1}, two_sums{.elements = 1, .sums = 2};
  const CodeBytes norm = sum({two_sums, PassWork{}});
  EXPECT_NEAR(norm.vertex_state / 150, 1, 0.3);
  EXPECT_NEAR(norm.vertex_code / 2020, 1, 0.31);
  EXPECT_NEAR(norm.control / 177, 1, 0.3);
  const CodeBytes softmax = sum({reduction, PassWork{}, PassWork{}, reduction, PassWork{}});
  EXPECT_NEAR(softmax.vertex_state / 109, 1, 0.55);
  EXPECT_NEAR(softmax.control / 137, 1, 0.5);
}

TEST(MachineOf, a_system_is_the_machine_it_came_from) {
  EXPECT_EQ(&machine_of(find_system("pod64")), find_machine("pod64"));
}

TEST(MachineOf, a_model_is_its_chip_with_its_own_tiles) {
  const Machine& small = machine_of(*find_model("ipu21", true));
  EXPECT_EQ(small.whole("tiles"), 4);
  EXPECT_EQ(small.whole("ipus"), 64);
  EXPECT_EQ(small["clock_hz"], (*find_machine("bow"))["clock_hz"]);
  EXPECT_EQ(&machine_of(*find_model("ipu21", true)), &small);
}

}  // namespace
}  // namespace ipu::target
