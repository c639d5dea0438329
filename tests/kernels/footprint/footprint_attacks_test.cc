// Requests as a file with right checksums may hold them, that would make products, convolutions, pooling,
// layouts, losses, softmax, custom operations or print_tensor touch memory that is not theirs, or break the
// process. Each is one change to a request that is accepted.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/custom/custom_kernel.h"
#include "tests/kernels/footprint/guarded_run.h"
#include "tests/layouts.h"
#include "tests/thrown.h"

namespace ipu::kernels {
namespace {

using Request = kernel_tests::KernelStep;
using kernel_tests::indices, kernel_tests::plain, kernel_tests::with_layout;
using List = std::vector<int64_t>;

std::string answer(const Request& request) {
  return message_of([&] { guarded::footprint_of(request); });
}

// `good` is accepted, and refused once `change` is made.
void expect_refused(const Request& good, const std::function<void(Request&)>& change) {
  EXPECT_EQ(answer(good), "no error");
  Request bad = good;
  change(bad);
  const std::string message = answer(bad);
  EXPECT_TRUE(message.starts_with("invalid program [IPU-E411]: the step ") ||
              message.starts_with("size overflow [IPU-E411]: "))
      << message;
}

const Request kProduct{"matmul", {plain({8, 6}), plain({6, 4})}, {plain({8, 4})}, {}};
const Request kLinear{"linear",
                      {plain({8, 6}), with_layout({6, 4}, Layout::panels_of_matrix(4)), plain({4})},
                      {plain({8, 4})},
                      {}};

TEST(Attack, a_product_whose_result_is_smaller_than_its_operands_say) {
  expect_refused(kProduct, [](Request& r) { r.results[0] = plain({8, 3}); });
  expect_refused(kProduct, [](Request& r) { r.results[0] = plain({1, 4}); });
  const Request batched{"matmul", {plain({5, 8, 6}), plain({5, 6, 4})}, {plain({5, 8, 4})}, {}};
  expect_refused(batched, [](Request& r) { r.results[0] = plain({1, 8, 4}); });
}
TEST(Attack, a_product_of_operands_that_disagree_about_their_terms) {
  expect_refused(kProduct, [](Request& r) { r.operands[1] = plain({3, 4}); });
  expect_refused(kProduct, [](Request& r) { r.attributes.set("trans_b", true); });
}
TEST(Attack, a_product_whose_result_has_stride_0) {
  expect_refused(kProduct, [](Request& r) { r.results[0].strides = {0, 1}; });
}
TEST(Attack, a_product_of_another_number_of_operands) {
  expect_refused(kProduct, [](Request& r) { r.operands.pop_back(); });
  expect_refused(kProduct, [](Request& r) { r.results.clear(); });
  expect_refused(kLinear, [](Request& r) { r.operands.push_back(plain({4})); });
}
TEST(Attack, a_product_of_an_operand_in_another_layout_or_type) {
  expect_refused(kProduct, [](Request& r) { r.operands[0].dtype = DType::kF16; });
  expect_refused(kProduct, [](Request& r) { r.results[0].dtype = DType::kU8; });
  expect_refused(kProduct, [](Request& r) { r.operands[0].layout = panels_for(r.operands[0].shape); });
  expect_refused(kLinear, [](Request& r) { r.operands[1].layout = Layout::kPlain; });
  expect_refused(kLinear, [](Request& r) { r.operands[1].layout = channels_last_for(r.operands[1].shape); });
}
TEST(Attack, a_packed_weight_counts_with_its_padding) {
  EXPECT_EQ(guarded::footprint_of(kLinear).operands[1], (Extent{0, 6 * 16 * 4}));
}
TEST(Attack, a_bias_of_another_length) {
  expect_refused(kLinear, [](Request& r) { r.operands[2] = plain({1}); });
  expect_refused(kLinear, [](Request& r) { r.operands[2] = plain({2, 2}); });
}
TEST(Attack, an_attribute_of_another_kind_or_value) {
  expect_refused(kLinear, [](Request& r) { r.attributes.set("activation", int64_t{1}); });
  expect_refused(kLinear, [](Request& r) { r.attributes.set("activation", std::string("sigmoid")); });
  expect_refused(kProduct, [](Request& r) { r.attributes.set("trans_a", std::string("yes")); });
}
TEST(Attack, a_product_whose_sizes_overflow) {
  expect_refused(kProduct, [](Request& r) {
    r.operands[0] = {DType::kF32, {int64_t{1} << 40, 6}, {0, 1}, Layout::kPlain};
    r.results[0] = plain({int64_t{1} << 40, 4});
    r.results[0].strides = {int64_t{1} << 45, 1};
  });
  expect_refused(kProduct, [](Request& r) { r.operands[0].shape = {int64_t{1} << 62, 6}; });
  expect_refused(kProduct, [](Request& r) { r.operands[0].strides = {INT64_MAX, 1}; });
}
TEST(Attack, a_product_of_no_columns_divides_by_no_lanes) {
  for (const Request& empty :
       {Request{"matmul", {plain({1024, 1024}), plain({1024, 0})}, {plain({1024, 0})}, {}},
        Request{"matmul", {plain({0, 1024}), plain({1024, 1024})}, {plain({0, 1024})}, {}}}) {
    const auto kernel = find_kernel("matmul")->prepare(empty.request());
    ASSERT_NE(kernel, nullptr);
    EXPECT_GE(kernel->lanes(), 1);
    guarded::expect_stays_inside(empty);
  }
}
// Displacements of generated code are 32-bit: rows of 2^29 floats would be before the operand.
TEST(Attack, a_product_of_rows_that_are_gigabytes_apart) {
  const int64_t far = (int64_t{1} << 29) + 3;
  const Request request{
      "matmul", {{DType::kF32, {64, 32}, {far, 1}, Layout::kPlain}, plain({32, 64})}, {plain({64, 64})}, {}};
  const Footprint footprint = guarded::footprint_of(request);
  EXPECT_EQ(footprint.operands[0], (Extent{0, (63 * far + 32) * 4}));
  const auto kernel = find_kernel("matmul")->prepare(request.request());
  ASSERT_NE(kernel, nullptr);
  constexpr auto kGuard = kernel_tests::Guard::kBehind;
  const kernel_tests::GuardedMemory memory_a(footprint.operands[0].end), memory_b(32 * 64 * 4),
      memory_c(64 * 64 * 4), memory_scratch(kernel->scratch_bytes() + 64);
  std::byte *const a = memory_a.place(footprint.operands[0], kGuard),
                   *const b = memory_b.place(32 * 64 * 4, kGuard),
                   *const c = memory_c.place(64 * 64 * 4, kGuard);
  auto at = [](std::byte* memory, int64_t i) { return reinterpret_cast<float*>(memory) + i; };
  for (int64_t row = 0; row < 64; ++row) *at(a, row * far + row % 32) = static_cast<float>(row);
  for (int64_t i = 0; i < 32 * 64; ++i) *at(b, i) = static_cast<float>(i);
  std::byte* operands[] = {a, b};
  std::byte* results[] = {c};
  for (int lane = 0; lane < kernel->lanes(); ++lane)
    kernel->run(
        {operands, results, memory_scratch.place(kernel->scratch_bytes() + 64, kernel_tests::Guard::kBefore)},
        lane);
  for (int64_t row = 0; row < 64; ++row)
    EXPECT_EQ(*at(c, row * 64 + 5), static_cast<float>(row * (row % 32 * 64 + 5)));
}

const Request kConv{"conv",
                    {plain({2, 3, 8, 8}), plain({5, 3, 3, 3}), plain({5})},
                    {plain({2, 5, 6, 6})},
                    {{"strides", List{1, 1}},
                     {"dilations", List{1, 1}},
                     {"padding_low", List{0, 0}},
                     {"groups", int64_t{1}}}};

TEST(Attack, a_convolution_whose_shapes_disagree) {
  expect_refused(kConv, [](Request& r) { r.results[0] = plain({1, 5, 6, 6}); });
  expect_refused(kConv, [](Request& r) { r.results[0] = plain({2, 4, 6, 6}); });
  expect_refused(kConv, [](Request& r) { r.operands[1] = plain({5, 2, 3, 3}); });
  expect_refused(kConv, [](Request& r) { r.operands[2] = plain({4}); });
  expect_refused(kConv, [](Request& r) { r.operands[1] = plain({5, 3, 3}); });
}
TEST(Attack, a_convolution_with_impossible_attributes) {
  for (const char* name : {"strides", "dilations"})
    for (int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1} << 40, INT64_MAX})
      expect_refused(kConv, [&](Request& r) { r.attributes.set(name, List{value, 1}); });
  for (int64_t value : {int64_t{1} << 32, -(int64_t{1} << 32), INT64_MAX, INT64_MIN})
    expect_refused(kConv, [&](Request& r) { r.attributes.set("padding_low", List{0, value}); });
  expect_refused(kConv, [](Request& r) { r.attributes.set("strides", List{1}); });
  expect_refused(kConv, [](Request& r) { r.attributes.set("strides", int64_t{1}); });
  for (int64_t groups : {int64_t{0}, int64_t{-1}, int64_t{2}, INT64_MIN})
    expect_refused(kConv, [&](Request& r) { r.attributes.set("groups", groups); });
}
TEST(Attack, a_convolution_of_more_taps_than_anyone_prepares) {
  expect_refused(kConv, [](Request& r) {
    const int64_t huge = int64_t{1} << 20;
    r.operands[1] = plain({0, 3, huge, huge});
    r.operands[2] = plain({0});
    r.results[0] = plain({2, 0, 6, 6});
  });
}
TEST(Attack, an_input_gradient_of_more_phases_than_anyone_prepares) {
  const Request gradient{
      "conv_input_gradient", {kConv.results[0], kConv.operands[1]}, {kConv.operands[0]}, kConv.attributes};
  expect_refused(gradient, [](Request& r) { r.attributes.set("strides", List{1 << 20, 1 << 20}); });
}
TEST(Attack, a_convolution_of_channels_without_divisors_is_prepared_at_once) {
  const int64_t prime = 134217689;
  const Request request{
      "conv", {plain({1, prime, 1, 1}), plain({1, prime, 1, 1})}, {plain({1, 1, 1, 1})}, {}};
  guarded::footprint_of(request);
  EXPECT_NE(find_kernel("conv")->prepare(request.request()),
            nullptr);  // once tried a hundred million divisors
}
TEST(Attack, a_packed_weight_of_another_kernel) {
  Request good = kConv;
  good.operands[1] = with_layout({27, 5}, Layout::panels_of_matrix(5));
  good.attributes.set("kernel_shape", List{5, 3, 3, 3});
  expect_refused(good, [](Request& r) { r.attributes.set("kernel_shape", List{5, 3, 5, 5}); });
  expect_refused(good, [](Request& r) { r.attributes.set("kernel_shape", List{5, 3, -3, -3}); });
  expect_refused(good, [](Request& r) { r.attributes.set("kernel_shape", List{5, 3, int64_t{1} << 62, 4}); });
  expect_refused(good, [](Request& r) { r.attributes.set("kernel_shape", List{}); });
  expect_refused(good, [](Request& r) { r.attributes.set("kernel_shape", std::string("5")); });
  expect_refused(good, [](Request& r) { r.attributes.erase("kernel_shape"); });
}

const Request kPool{"max_pool",
                    {plain({2, 3, 8, 8})},
                    {plain({2, 3, 4, 4})},
                    {{"kernel", List{2, 2}}, {"strides", List{2, 2}}}};

TEST(Attack, a_window_whose_product_overflows_the_scratch) {
  for (int64_t extent : {int64_t{0}, int64_t{-2}, int64_t{1} << 20, int64_t{1} << 31, int64_t{1} << 62})
    expect_refused(kPool, [&](Request& r) { r.attributes.set("kernel", List{extent, extent}); });
}
TEST(Attack, a_pooling_with_impossible_attributes) {
  for (const char* name : {"strides", "dilations"})
    for (int64_t value : {int64_t{0}, int64_t{-1}, INT64_MAX})
      expect_refused(kPool, [&](Request& r) { r.attributes.set(name, List{1, value}); });
  for (const char* name : {"padding_low", "padding_high", "ceil_padding"})
    for (int64_t value : {int64_t{-1}, int64_t{1} << 40, INT64_MIN})
      expect_refused(kPool, [&](Request& r) { r.attributes.set(name, List{value, 0}); });
  expect_refused(kPool, [](Request& r) { r.attributes.set("kernel", List{2}); });
  expect_refused(kPool, [](Request& r) { r.attributes.erase("kernel"); });
  expect_refused(kPool, [](Request& r) { r.attributes.set("divisor", std::string("2")); });
}
TEST(Attack, a_pooling_gradient_whose_operands_have_other_shapes) {
  const Request good{"max_pool_gradient",
                     {plain({2, 3, 8, 8}), plain({2, 3, 4, 4}), plain({2, 3, 4, 4})},
                     {plain({2, 3, 8, 8})},
                     kPool.attributes};
  expect_refused(good, [](Request& r) { r.operands[0] = plain({2, 3, 8, 7}); });
  expect_refused(good, [](Request& r) { r.operands[1] = plain({2, 3, 3, 4}); });
  expect_refused(good, [](Request& r) { r.operands[2] = plain({1, 3, 4, 4}); });
  expect_refused(good, [](Request& r) { r.operands[1].dtype = DType::kF16; });
  expect_refused(good, [](Request& r) { r.operands.pop_back(); });
}
// More windows than the image has room for: those behind it have no taps.
TEST(Attack, windows_behind_the_image_read_nothing) {
  for (const char* id : {"max_pool", "avg_pool"}) {
    Request request = kPool;
    request.id = id;
    request.results[0] = plain({2, 3, 9, 40});
    guarded::expect_stays_inside(request);
  }
}

TEST(Attack, a_conversion_of_layouts_between_other_shapes) {
  const Request good{
      "convert_layout", {plain({6, 70})}, {with_layout({6, 70}, Layout::panels_of_matrix(70))}, {}};
  expect_refused(good, [](Request& r) { r.results[0].shape = {5, 70}; });
  expect_refused(good, [](Request& r) { r.results[0].dtype = DType::kF16; });
  expect_refused(good, [](Request& r) { r.attributes.set("transpose", true); });
  expect_refused(good, [](Request& r) { r.results[0].layout = Layout::kPlain; });
  expect_refused(good, [](Request& r) { r.results[0].layout = channels_last_for(r.results[0].shape); });
  Request back = good;
  std::swap(back.operands, back.results);
  expect_refused(back, [](Request& r) { r.results[0].strides = {0, 1}; });
  const Request weight{"convert_layout",
                       {plain({4, 3, 2, 2})},
                       {with_layout({12, 4}, Layout::panels_of_matrix(4))},
                       {{"conv_weight", true}}};
  expect_refused(weight, [](Request& r) { r.results[0].shape = {11, 4}; });
  expect_refused(weight, [](Request& r) {
    r.operands[0] = plain({4, 3, 2, 2});
    r.operands[0].shape = {4, 12, int64_t{1} << 32, int64_t{1} << 32};
  });
}

const Request kLoss{"cross_entropy", {plain({6, 5}), indices({6})}, {plain({})}, {}};
const Request kLossGradient{
    "cross_entropy_gradient", {plain({}), plain({6, 5}), indices({6})}, {plain({6, 5})}, {}};

TEST(Attack, a_loss_of_another_number_of_targets_or_results) {
  expect_refused(kLoss, [](Request& r) { r.operands[1] = indices({5}); });
  expect_refused(kLoss, [](Request& r) { r.attributes.set("reduction", std::string("none")); });
  expect_refused(kLoss, [](Request& r) { r.results[0] = plain({0}); });
  expect_refused(kLoss, [](Request& r) { r.operands.pop_back(); });
  expect_refused(kLossGradient, [](Request& r) { r.attributes.set("reduction", std::string("none")); });
  expect_refused(kLossGradient, [](Request& r) { r.operands[0] = plain({0}); });
  expect_refused(kLossGradient, [](Request& r) { r.results[0] = plain({6, 4}); });
}
TEST(Attack, a_loss_of_other_types) {
  expect_refused(kLoss, [](Request& r) { r.operands[0].dtype = DType::kF16; });
  expect_refused(kLoss, [](Request& r) { r.operands[1].dtype = DType::kI8; });
  expect_refused(kLoss, [](Request& r) { r.results[0].dtype = DType::kU8; });
  expect_refused(kLossGradient, [](Request& r) { r.operands[0].dtype = DType::kU8; });
  expect_refused(kLossGradient, [](Request& r) { r.results[0].dtype = DType::kF16; });
  expect_refused(kLossGradient, [](Request& r) { r.results[0].strides = {0, 0}; });
}
TEST(Attack, a_loss_with_a_strange_reduction) {
  expect_refused(kLoss, [](Request& r) { r.attributes.set("reduction", std::string("most")); });
  expect_refused(kLoss, [](Request& r) { r.attributes.set("ignore_index", 0.5); });
}
TEST(Attack, targets_outside_the_classes_touch_nothing) {
  for (const Request& request : {kLoss, kLossGradient}) {
    const Footprint footprint = guarded::footprint_of(request);
    auto contents = guarded::random_contents(request, footprint);
    for (int32_t value : {-1, 5, INT32_MAX, INT32_MIN}) {
      guarded::Bytes& targets = contents.back();
      for (size_t at = 0; at < targets.size(); at += 4) std::memcpy(&targets[at], &value, 4);
      guarded::expect_stays_inside(request, &contents);
    }
  }
}

const Request kSoftmax{
    "softmax_gradient", {plain({6, 5}), plain({6, 5})}, {plain({6, 5})}, {{"dim", int64_t{1}}}};

TEST(Attack, a_softmax_of_other_shapes_types_or_dimensions) {
  expect_refused(kSoftmax, [](Request& r) { r.operands[1] = plain({6, 4}); });
  expect_refused(kSoftmax, [](Request& r) { r.operands[0].dtype = DType::kF16; });
  expect_refused(kSoftmax, [](Request& r) { r.results[0].strides = {0, 1}; });
  expect_refused(kSoftmax, [](Request& r) { r.operands.pop_back(); });
  expect_refused(kSoftmax, [](Request& r) { r.results.clear(); });
  for (int64_t dim : {int64_t{-1}, int64_t{2}, INT64_MIN, INT64_MAX})
    expect_refused(kSoftmax, [&](Request& r) { r.attributes.set("dim", dim); });
  expect_refused(kSoftmax, [](Request& r) { r.attributes.erase("dim"); });
}

const Request kCtc{"ctc_loss",
                   {plain({7, 2, 5}), indices({2, 3}), indices({2}), indices({2})},
                   {plain({2})},
                   {{"blank", int64_t{0}}}};

TEST(Attack, a_ctc_loss_of_other_shapes_or_blanks) {
  for (int64_t blank : {int64_t{-1}, int64_t{5}, INT64_MAX, INT64_MIN})
    expect_refused(kCtc, [&](Request& r) { r.attributes.set("blank", blank); });
  expect_refused(kCtc, [](Request& r) { r.operands[1] = indices({1, 3}); });
  expect_refused(kCtc, [](Request& r) { r.operands[2] = indices({1}); });
  expect_refused(kCtc, [](Request& r) { r.operands[3] = indices({1}); });
  expect_refused(kCtc, [](Request& r) { r.results[0] = plain({1}); });
  expect_refused(kCtc, [](Request& r) { r.results[0].dtype = DType::kU8; });
  expect_refused(kCtc, [](Request& r) { r.operands[0] = plain({7, 2}); });
  expect_refused(kCtc, [](Request& r) { r.operands.resize(3); });
  expect_refused(kCtc, [](Request& r) {  // scratch of 2^74 bytes
    r.operands[0] = plain({int64_t{1} << 35, 2, 5});
    r.operands[1] = indices({2, int64_t{1} << 35});
  });
}
TEST(Attack, lengths_and_labels_outside_their_ranges_touch_nothing) {
  const Request gradient{"ctc_loss_gradient",
                         {plain({2}), kCtc.operands[0], kCtc.operands[1], kCtc.operands[2], kCtc.operands[3]},
                         {kCtc.operands[0]},
                         {}};
  for (const Request& request : {kCtc, gradient}) {
    const Footprint footprint = guarded::footprint_of(request);
    const auto good = guarded::random_contents(request, footprint);
    for (size_t operand = good.size() - 3; operand < good.size(); ++operand)
      for (int32_t value : {-1, 4, 5, 8, INT32_MAX, INT32_MIN}) {
        auto contents = good;
        for (size_t at = 0; at < contents[operand].size(); at += 4)
          std::memcpy(&contents[operand][at], &value, 4);
        guarded::expect_stays_inside(request, &contents);
      }
  }
}

TEST(Attack, a_printed_tensor_whose_copy_is_smaller) {
  const Request good{"print_tensor", {plain({2, 3})}, {plain({2, 3})}, {{"title", std::string("x")}}};
  expect_refused(good, [](Request& r) { r.results[0] = plain({2, 2}); });
  expect_refused(good, [](Request& r) { r.results[0].layout = channels_last_for(r.results[0].shape); });
  expect_refused(good, [](Request& r) { r.results[0].dtype = DType::kF16; });
  for (const char* name : {"summarise_threshold", "edge_items", "max_line_width", "digits"})
    for (int64_t value : {int64_t{-1}, INT64_MIN, INT64_MAX})
      expect_refused(good, [&](Request& r) { r.attributes.set(name, value); });
  expect_refused(good, [](Request& r) { r.attributes.set("title", int64_t{1}); });
}

TEST(Attack, an_abort_whose_copy_is_smaller) {
  const Request good{"abort", {plain({2, 3})}, {plain({2, 3})}, {}};
  expect_refused(good, [](Request& r) { r.results[0] = plain({2, 2}); });
  expect_refused(good, [](Request& r) { r.results[0].layout = channels_last_for(r.results[0].shape); });
  expect_refused(good, [](Request& r) { r.results[0].dtype = DType::kF16; });
  expect_refused(good, [](Request& r) { r.operands.clear(); });
}

// --- a library's operations
int32_t like_first(const ipu_call* call, ipu_type* results, char* error, size_t size) {
  if (call->operands[0].rank == 0) {
    std::snprintf(error, size, "x must have a dimension");
    return 1;
  }
  results[0] = call->operands[0];
  return 0;
}
// Sums what is there; an absent operand says so, whether the program names it or leaves it out at the end.
void sum_present(const ipu_call* call, const ipu_view* operands, const ipu_view* results, int32_t) {
  for (int64_t i = 0; i < results[0].type.shape[0]; ++i) {
    float sum = 0;
    for (int32_t n = 0; n < 3; ++n) {
      if ((operands[n].type.rank < 0) != (operands[n].data == nullptr)) sum = -1e9f;
      if ((operands[n].type.rank < 0) != (call->operands[n].rank < 0)) sum = -1e9f;
      if (operands[n].data != nullptr) sum += static_cast<const float*>(operands[n].data)[i];
    }
    static_cast<float*>(results[0].data)[i] = sum;
  }
}
int32_t many_lanes(const ipu_call* call) { return static_cast<int32_t>(call->attributes[0].integer); }

const ipu_operand kOperands[] = {{"x", 1u << IPU_F32, 0}, {"y", 1u << IPU_F32, 1}, {"z", 0, 1}};
const ipu_attribute kAttributes[] = {{"lanes", 1, {IPU_INTEGER, 1, 0, nullptr, nullptr, nullptr, 0}}};
const char* const kResults[] = {"sum"};
const ipu_custom_op kSum{.struct_size = sizeof(ipu_custom_op),
                         .domain = "attack",
                         .name = "sum",
                         .version = 1,
                         .doc = nullptr,
                         .operand_count = 3,
                         .operands = kOperands,
                         .attribute_count = 1,
                         .attributes = kAttributes,
                         .result_count = 1,
                         .results = kResults,
                         .infer = like_first,
                         .run = sum_present,
                         .lanes = many_lanes,
                         .effects = 0,
                         .gradient_kind = IPU_GRADIENT_ZERO,
                         .gradient_reason = nullptr,
                         .gradient_count = 0,
                         .gradients = nullptr,
                         .flops = nullptr};

Request sum_request() {
  static const bool once = (register_custom_kernel("attack.sum", &kSum), true);
  EXPECT_TRUE(once);
  return {"custom",
          {plain({4}), plain({4}), plain({4})},
          {plain({4})},
          {{"op", std::string("attack.sum")}, {"lanes", int64_t{1}}}};
}

TEST(Attack, a_custom_operation_that_nobody_loaded) {
  Request request = sum_request();
  request.attributes.set("op", std::string("attack.other"));
  EXPECT_EQ(answer(request),
            "custom operation not loaded [IPU-E101]: 'attack.other' comes from a library; load it before the "
            "program.");
  request.attributes.set("op", int64_t{3});
  EXPECT_EQ(answer(request), "invalid program [IPU-E411]: the step has attribute 'op' of another kind");
}
TEST(Attack, a_custom_operation_of_other_operands_than_its_library_says) {
  const Request good = sum_request();
  expect_refused(good, [](Request& r) { r.operands.resize(65, plain({4})); });
  expect_refused(good, [](Request& r) { r.operands.clear(); });
  expect_refused(good, [](Request& r) { r.absent = 1; });
  expect_refused(good, [](Request& r) { r.results.push_back(plain({4})); });
  expect_refused(good, [](Request& r) { r.operands[0] = plain({5}); });
  expect_refused(good, [](Request& r) { r.operands[1].dtype = DType::kI32; });
  expect_refused(good, [](Request& r) { r.operands[2].dtype = DType::kF64; });
  expect_refused(good, [](Request& r) { r.operands[1].strides = {2}; });
  expect_refused(good, [](Request& r) { r.operands[1].layout = channels_last_for(r.operands[1].shape); });
  expect_refused(good, [](Request& r) { r.operands[1] = plain(Shape(9, 1)); });
  expect_refused(good, [](Request& r) { r.results[0].dtype = DType::kF16; });
  expect_refused(good, [](Request& r) { r.operands[0] = r.results[0] = plain({}); });
}
TEST(Attack, a_custom_operation_with_other_attributes_than_its_library_says) {
  const Request good = sum_request();
  expect_refused(good, [](Request& r) { r.attributes.erase("lanes"); });
  expect_refused(good, [](Request& r) { r.attributes.set("lanes", int64_t{65536}); });
  Request kind = good;
  kind.attributes.set("lanes", std::string("1"));
  EXPECT_EQ(answer(kind),
            "attribute mismatch [IPU-E201]: 'lanes' is of another kind than its operation says.");
}
TEST(CustomKernel, an_absent_operand_is_absent_in_the_call_and_in_the_views) {
  Request all = sum_request(), first = all, middle = all;
  guarded::expect_stays_inside(all);
  first.operands.resize(1);
  guarded::expect_stays_inside(first);
  middle.operands[1] = TensorSpec{};
  middle.absent = 2;
  guarded::expect_stays_inside(middle);
  for (const Request& request : {first, middle}) {
    const Footprint footprint = guarded::footprint_of(request);
    auto contents = guarded::random_contents(request, footprint);
    for (guarded::Bytes& bytes : contents) std::fill(bytes.begin(), bytes.end(), std::byte{0});
    const auto kernel = find_kernel("custom")->prepare(request.request());
    EXPECT_EQ(guarded::run(*kernel, request, footprint, contents, kernel_tests::Guard::kBehind)[0],
              guarded::Bytes(16, std::byte{0}));
  }
}

}  // namespace
}  // namespace ipu::kernels
