// Kernels' statements of what they touch: every kernel has one, it accepts what the op definitions' samples
// ask for, and the kernel lives with exactly the bytes that it says.
#include "kernels/footprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "support/error.h"
#include "tests/kernels/footprint/guarded_run.h"
#include "tests/ops/sample_graph.h"
#include "tests/thrown.h"

namespace ipu::kernels {
namespace {

using guarded::Bytes;
using Request = kernel_tests::KernelStep;

TEST(Footprint, is_stated_by_every_kernel) {
  for (std::string_view id : kernel_ids())  // "test.": of other tests
    EXPECT_TRUE(id.starts_with("test.") || find_kernel(id)->footprint != nullptr) << id;
}

class EverySample : public testing::TestWithParam<std::string> {};

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const ops::OpDef* def : ops::all_ops()) names.push_back(def->name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Registry, EverySample, testing::ValuesIn(op_names()),
                         [](const auto& info) { return ops::test_name(info.param); });

std::optional<ops::Sample> in_half(const ops::OpDef& def, ops::Sample sample) {
  bool any = false;
  for (std::optional<ir::Type>& type : sample.operands)
    if (type && type->dtype == DType::kF32) {
      type->dtype = DType::kF16;
      any = true;
    }
  if (!any) return std::nullopt;
  try {
    ops::build_sample(def, sample);
  } catch (const Error&) {
    return std::nullopt;
  }
  return sample;
}

// `any` becomes true when a kernel takes the sample.
void check(const ops::OpDef& def, const ops::Sample& sample, bool& any) {
  const ops::SampleGraph s = ops::build_sample(def, sample);
  const ops::OpDef* definition = ops::definition(*s.op);
  if (definition == nullptr || !definition->kernels) return;
  Request request;
  int operand_count = s.op->operand_count();  // as lowering counts them
  while (operand_count > 0 && s.op->operand(operand_count - 1) == nullptr) --operand_count;
  std::vector<Bytes> contents;
  const std::vector<ops::ReferenceTensor> inputs = ops::sample_inputs(sample);
  size_t next = 0;
  for (int i = 0; i < operand_count; ++i) {
    request.operands.emplace_back();
    contents.emplace_back();
    const ir::Value* const value = s.op->operand(i);
    if (value == nullptr) {
      request.absent |= uint64_t{1} << i;
      continue;
    }
    request.operands.back() = TensorSpec::plain(value->type().dtype, value->type().shape);
    contents.back() = inputs[next++].to_constant()->bytes;
  }
  for (int i = 0; i < s.op->result_count(); ++i)
    request.results.push_back(
        TensorSpec::plain(s.op->result(i)->type().dtype, s.op->result(i)->type().shape));
  for (const ops::KernelChoice& choice : definition->kernels(*s.op)) {
    const KernelDef* kernel = find_kernel(choice.id);
    if (kernel == nullptr || kernel->footprint == nullptr) continue;
    request.id = choice.id;
    request.attributes = choice.attributes;
    if (kernel->prepare(request.request()) == nullptr) continue;
    const Footprint footprint = guarded::footprint_of(request);
    std::vector<Bytes> stated = contents;
    for (size_t i = 0; i < stated.size(); ++i) {
      const Extent& extent = footprint.operands[i];
      ASSERT_GE(extent.begin, 0);
      ASSERT_LE(extent.end, static_cast<int64_t>(contents[i].size())) << "operand " << i;
      stated[i].assign(contents[i].begin() + extent.begin, contents[i].begin() + extent.end);
    }
    guarded::expect_stays_inside(request, &stated);
    any = true;
  }
}

TEST_P(EverySample, StaysInsideWhatIsStated) {
  const ops::OpDef& def = ops::get_op(GetParam());
  bool any = false;
  for (size_t n = 0; n < def.samples.size(); ++n) {
    SCOPED_TRACE(ops::name_of(def, n));
    check(def, def.samples[n], any);
    if (const auto half = in_half(def, def.samples[n])) check(def, *half, any);
  }
  if (!any) GTEST_SKIP() << "no kernel with a statement";
}

// The common checks of footprint.h.
TEST(Footprint, bounds_what_plain_arithmetic_may_meet) {
  auto answer = [](const TensorSpec& spec) {
    const Attributes none;
    return message_of([&] { require_sound({{&spec, 1}, {}, none}); });
  };
  EXPECT_EQ(answer(TensorSpec::plain(DType::kF32, {2, 3})), "no error");
  EXPECT_EQ(answer({DType::kF32, {4, 5}, {0, 0}, Layout::kPlain}), "no error");
  EXPECT_EQ(answer({DType::kF32, {2, 3, 4}, {}, Layout::channels_last(3)}), "no error");
  EXPECT_EQ(answer({DType::kF32, {2, 3}, {}, Layout::panels_of_matrix(3)}), "no error");
  EXPECT_EQ(answer({DType::kF32, {2}, {}, Layout::channels_last(3)}),
            "invalid program [IPU-E411]: the step has an operand in a layout that no kernel reads");
  EXPECT_EQ(answer({DType::kF32, {2, 3}, {}, Layout::panels_of_matrix(64)}),
            "invalid program [IPU-E411]: the step has an operand in a layout that no kernel reads");
  EXPECT_EQ(answer({DType::kF32, {2, 3}, {3}, Layout::kPlain}),
            "invalid program [IPU-E411]: the step has another number of strides than dimensions");
  EXPECT_EQ(answer({DType::kF32, {-1}, {1}, Layout::kPlain}),
            "invalid program [IPU-E411]: the step has a negative extent");
  EXPECT_EQ(answer({DType::kF32, {int64_t{1} << 40, 0, int64_t{1} << 40}, {0, 0, 0}, Layout::kPlain}),
            "invalid program [IPU-E411]: the step has a tensor of more than 2^48 elements");
  EXPECT_EQ(answer({DType::kF32, {1}, {INT64_MIN}, Layout::kPlain}),
            "invalid program [IPU-E411]: the step has a stride beyond 2^48 elements");
  EXPECT_EQ(answer({DType::kF32, {int64_t{1} << 15}, {int64_t{1} << 34}, Layout::kPlain}),
            "invalid program [IPU-E411]: the step has a stride beyond 2^48 elements");
  EXPECT_EQ(answer({DType::kF32, {2, 3, 4}, {12, 4, 1}, Layout::panels_of_matrix(4)}),
            "invalid program [IPU-E411]: the step has an operand in a layout that no kernel reads");
  EXPECT_EQ(answer({DType::kF32, Shape(65, 1), Strides(65, 1), Layout::kPlain}),
            "invalid program [IPU-E411]: the step has a tensor of more than 64 dimensions");
}

TEST(Footprint, refuses_results_that_share_memory_with_themselves) {
  auto answer = [](Shape shape, Strides strides) {
    return message_of([&] { require_disjoint({DType::kF32, shape, strides, Layout::kPlain}); });
  };
  const std::string shared = "invalid program [IPU-E411]: the step has a result whose elements overlap";
  EXPECT_EQ(answer({2, 3}, {3, 1}), "no error");
  EXPECT_EQ(answer({2, 3}, {1, 2}), "no error");
  EXPECT_EQ(answer({2, 3}, {-3, 1}), "no error");
  EXPECT_EQ(answer({1, 3}, {0, 1}), "no error");
  EXPECT_EQ(answer({0, 3}, {0, 0}), "no error");
  EXPECT_EQ(answer({2, 3}, {2, 1}), shared);
  EXPECT_EQ(answer({2}, {0}), shared);
  EXPECT_EQ(answer({3, 3}, {1, 1}), shared);
}

}  // namespace
}  // namespace ipu::kernels
