// Kernels of collectives: they live with exactly the bytes of all members, and refuse members that differ.
#include <gtest/gtest.h>

#include "tests/kernels/footprint/accepted_steps.h"
#include "tests/kernels/footprint/guarded_run.h"

namespace ipu::kernels {
namespace {

using namespace kernel_tests;

KernelStep members(const std::string& id, DType dtype, const Shape& x, const Shape& y, size_t count,
                   Attributes attributes = {}) {
  return {id, std::vector<TensorSpec>(count, TensorSpec::plain(dtype, x)),
          std::vector<TensorSpec>(count, TensorSpec::plain(dtype, y)), std::move(attributes)};
}

// Sizes that are no multiple of a vector, of a block, of the members; more than one lane.
TEST(FootprintOfCollectives, IsAllTheyTouch) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kU8}) {
    for (const char* op : {"sum", "prod", "max", "square_sum"})
      for (int64_t n : {0, 1, 7, 1025, 140'001}) {
        const Attributes by{{"op", std::string(op)}};
        guarded::expect_stays_inside(members("all_reduce", dtype, {n}, {n}, 3, by));
        guarded::expect_stays_inside(members("reduce_scatter", dtype, {n}, {(n + 2) / 3}, 3, by));
      }
    guarded::expect_stays_inside(
        members("reduce_scatter", dtype, {7}, {3}, 3, {{"op", std::string("local")}}));
    guarded::expect_stays_inside(members("all_gather", dtype, {5, 7}, {5, 21}, 3, {{"dim", int64_t{1}}}));
    guarded::expect_stays_inside(
        members("all_gather", dtype, {3}, {7, 1}, 3, {{"form", std::string("shape")}}));
    guarded::expect_stays_inside(
        members("all_gather", dtype, {70'001}, {140'001}, 2, {{"form", std::string("shape")}}));
    guarded::expect_stays_inside(members("replica_slice", dtype, {5, 9}, {5, 3}, 3, {{"dim", int64_t{1}}}));
    guarded::expect_stays_inside(members("broadcast", dtype, {5, 9}, {5, 9}, 3, {{"root", int64_t{2}}}));
    for (int64_t split : {0, 1, 2})
      for (int64_t joined : {0, 1, 2}) {
        Shape y{3, 6, 9};
        y[static_cast<size_t>(split)] /= 3;
        y[static_cast<size_t>(joined)] *= 3;
        guarded::expect_stays_inside(
            members("all_to_all", dtype, {3, 6, 9}, y, 3, {{"split_dim", split}, {"concat_dim", joined}}));
      }
  }
}

TEST(FootprintOfCollectives, RefusesMembersThatDiffer) {
  const KernelStep sum = members("all_reduce", DType::kF32, {6}, {6}, 2);
  expect_refused(
      sum, [](KernelStep& s) { s.operands.clear(); }, "is a collective of no members");
  expect_refused(
      sum, [](KernelStep& s) { s.results.pop_back(); }, "another number of results than operands");
  expect_refused(
      sum, [](KernelStep& s) { s.absent = 2; }, "with a member that gives nothing");
  expect_refused(
      sum, [](KernelStep& s) { s.operands[1] = plain({5}); }, "whose members differ");
  expect_refused(
      sum, [](KernelStep& s) { s.results[1] = plain({7}); }, "whose members differ");
  expect_refused(
      sum, [](KernelStep& s) { s.operands[0].strides = s.operands[1].strides = {2}; }, "on views with gaps");
  expect_refused(
      sum, [](KernelStep& s) { s.results[0].dtype = s.results[1].dtype = DType::kI32; },
      "changes the element type");
  expect_refused(
      members("all_gather", DType::kF32, {3, 4}, {6, 4}, 2, {{"dim", int64_t{0}}}),
      [](KernelStep& s) {
        s.operands[0] = s.operands[1] = with_layout({3, 4}, Layout::panels_of_matrix(4));
      },
      "in a layout it does not know");
}

}  // namespace
}  // namespace ipu::kernels
