// The statements of products, convolutions, pooling, layouts, losses and softmax in the layouts, strides and
// types that samples of operations do not have, and that their lanes return when they are told to stop.
#include <gtest/gtest.h>

#include "kernels/isa.h"
#include "tests/kernels/footprint/guarded_run.h"
#include "tests/layouts.h"

namespace ipu::kernels {
namespace {

using Request = kernel_tests::KernelStep;
using kernel_tests::indices, kernel_tests::plain, kernel_tests::with_layout;
using List = std::vector<int64_t>;

TensorSpec strided(Shape shape, Strides strides) {
  return {DType::kF32, std::move(shape), std::move(strides), Layout::kPlain};
}
TensorSpec packed(Shape shape) { return with_layout(shape, panels_for(shape)); }
TensorSpec nhwc(Shape shape) { return with_layout(shape, channels_last_for(shape)); }

Request in_half(Request request) {
  for (auto* list : {&request.operands, &request.results})
    for (TensorSpec& spec : *list)
      if (spec.dtype == DType::kF32) spec.dtype = DType::kF16;
  return request;
}

void expect_both_types(const Request& request) {
  guarded::expect_stays_inside(request);
  guarded::expect_stays_inside(in_half(request));
}

TEST(FootprintVariants, products_of_strided_and_transposed_operands) {
  for (int64_t m : {1, 2, 3, 5, 65, 200})
    for (int64_t n : {1, 7, 16, 63, 64, 65, 130})
      for (int64_t k : {1, 9, 64, 515}) {
        SCOPED_TRACE(ipu::to_string(Shape{m, n, k}));
        expect_both_types({"matmul", {plain({m, k}), plain({k, n})}, {plain({m, n})}, {}});
        expect_both_types({"matmul", {plain({m, k}), plain({n, k})}, {plain({m, n})}, {{"trans_b", true}}});
        expect_both_types({"matmul", {plain({k, m}), packed({k, n})}, {plain({m, n})}, {{"trans_a", true}}});
        expect_both_types({"matmul", {plain({m, k}), packed({n, k})}, {plain({m, n})}, {{"trans_b", true}}});
        expect_both_types({"matmul",
                           {strided({m, k}, {k + 3, 1}), strided({k, n}, {n + 1, 1})},
                           {strided({m, n}, {n + 5, 1})},
                           {}});
      }
  expect_both_types({"matmul",
                     {strided({3, 4, 5}, {0, 5, 1}), strided({3, 5, 70}, {350, 1, 5})},
                     {strided({3, 4, 70}, {70, 210, 1})},
                     {}});
  expect_both_types({"matmul", {strided({4, 5}, {-5, 1}), strided({5, 70}, {-70, 1})}, {plain({4, 70})}, {}});
}

TEST(FootprintVariants, linear_with_plain_and_packed_weights) {
  for (int64_t m : {1, 2, 5, 70})
    for (int64_t n : {3, 64, 100})
      for (int64_t k : {1, 30, 64, 600}) {
        SCOPED_TRACE(ipu::to_string(Shape{m, n, k}));
        const TensorSpec x = plain({m, k}), y = plain({m, n});
        for (const TensorSpec& w : {plain({n, k}), packed({k, n})}) {
          expect_both_types({"linear", {x, w}, {y}, {}});
          expect_both_types({"linear", {x, w, plain({n})}, {y}, {{"activation", std::string("relu")}}});
          guarded::expect_stays_inside(
              {"linear", {x, w, plain({n}), y}, {y}, {{"activation", std::string("gelu")}}});
          guarded::expect_stays_inside({"linear", {x, w, TensorSpec{}, y}, {y}, {}, 4});
          expect_both_types({"linear_input_gradient", {y, w}, {x}, {}});
          expect_both_types({"linear_weight_gradient", {x, y}, {w}, {}});
        }
        expect_both_types({"linear",
                           {strided({m, k}, {k + 7, 1}), packed({k, n}), plain({n})},
                           {strided({m, n}, {n + 9, 1})},
                           {}});
      }
  const Request no_bias{"linear", {plain({2, 3}), plain({4, 3}), TensorSpec{}}, {plain({2, 4})}, {}, 4};
  guarded::expect_stays_inside(no_bias);
  EXPECT_EQ(guarded::footprint_of(no_bias).operands[2], Extent{});
}

struct Conv {
  int64_t batch, in, out, groups;
  List image, kernel, stride, dilation, padding;

  Shape x() const { return with({batch, in}, image); }
  Shape w() const { return with({out, in / groups}, kernel); }
  Shape y() const {
    List extents;
    for (size_t d = 0; d < image.size(); ++d)
      extents.push_back((image[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1);
    return with({batch, out}, extents);
  }
  Attributes attributes() const {
    return {{"strides", stride}, {"dilations", dilation}, {"padding_low", padding}, {"groups", groups}};
  }
  static Shape with(Shape shape, const List& more) {
    shape.insert(shape.end(), more.begin(), more.end());
    return shape;
  }
};

const std::vector<Conv> kConvs = {{2, 3, 5, 1, {9, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                  {1, 4, 70, 1, {8, 8}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
                                  {2, 8, 12, 2, {6, 9}, {3, 2}, {2, 3}, {1, 2}, {2, 0}},
                                  {1, 16, 16, 16, {10, 7}, {3, 3}, {2, 1}, {1, 1}, {1, 1}},
                                  {3, 520, 3, 1, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
                                  {2, 5, 4, 1, {40}, {5}, {3}, {2}, {4}},
                                  {1, 64, 64, 1, {20, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                  {2, 40, 64, 1, {6, 5}, {3, 3}, {2, 1}, {1, 1}, {1, 1}}};

TEST(FootprintVariants, convolutions_in_every_mix_of_layouts) {
  for (const Conv& c : kConvs)
    for (bool x_last : {false, true})
      for (bool y_last : {false, true}) {
        SCOPED_TRACE(ipu::to_string(c.x()) + " " + ipu::to_string(c.w()));
        const TensorSpec x = x_last ? nhwc(c.x()) : plain(c.x()), y = y_last ? nhwc(c.y()) : plain(c.y());
        const TensorSpec w = plain(c.w());
        expect_both_types({"conv", {x, w}, {y}, c.attributes()});
        expect_both_types({"conv", {x, w, plain({c.out})}, {y}, c.attributes()});
        guarded::expect_stays_inside(
            {"fused_conv", {x, w, plain({c.out}), plain({c.out})}, {y}, c.attributes()});
        if (y_last)
          guarded::expect_stays_inside(
              {"fused_conv", {x, w, plain({}), plain({c.out}), y}, {y}, c.attributes()});
        expect_both_types({"conv_input_gradient", {y, w}, {x}, c.attributes()});
        expect_both_types({"conv_weight_gradient", {x, y}, {w}, c.attributes()});
        if (c.groups != 1) continue;
        int64_t rows = c.in;
        for (int64_t extent : c.kernel) rows *= extent;
        Attributes attributes = c.attributes();
        attributes.set("kernel_shape", c.w());
        attributes.set("activation", std::string("relu"));
        expect_both_types({"conv", {x, packed({rows, c.out}), plain({c.out})}, {y}, attributes});
        expect_both_types({"convert_layout", {w}, {packed({rows, c.out})}, {{"conv_weight", true}}});
        expect_both_types({"convert_layout", {packed({rows, c.out})}, {w}, {{"conv_weight", true}}});
      }
}

TEST(FootprintVariants, pooling_in_every_mix_of_layouts) {
  struct Pool {
    Shape in, out;
    Attributes attributes;
  };
  const std::vector<Pool> pools = {
      {{2, 5, 9, 7},
       {2, 5, 5, 4},
       {{"kernel", List{3, 3}},
        {"strides", List{2, 2}},
        {"padding_low", List{1, 1}},
        {"padding_high", List{1, 1}}}},
      {{1, 20, 8, 8}, {1, 20, 4, 4}, {{"kernel", List{2, 2}}, {"strides", List{2, 2}}}},
      {{2, 17, 30},
       {2, 17, 13},
       {{"kernel", List{3}},
        {"strides", List{2}},
        {"dilations", List{2}},
        {"padding_low", List{1}},
        {"padding_high", List{1}}}}};
  for (const Pool& pool : pools)
    for (bool in_last : {false, true})
      for (bool out_last : {false, true}) {
        SCOPED_TRACE(ipu::to_string(pool.in));
        const TensorSpec x = in_last ? nhwc(pool.in) : plain(pool.in);
        const TensorSpec y = out_last ? nhwc(pool.out) : plain(pool.out);
        expect_both_types({"max_pool", {x}, {y}, pool.attributes});
        expect_both_types({"max_pool_gradient", {x, y, y}, {x}, pool.attributes});
        expect_both_types({"avg_pool", {x}, {y}, pool.attributes});
        expect_both_types({"avg_pool_gradient", {y}, {x}, pool.attributes});
      }
}

TEST(FootprintVariants, conversions_of_layouts) {
  for (int64_t rows : {1, 5, 64, 300})
    for (int64_t columns : {1, 15, 63, 64, 100}) {
      const TensorSpec a = plain({rows, columns}), at = plain({columns, rows}), p = packed({rows, columns});
      expect_both_types({"convert_layout", {a}, {p}, {}});
      expect_both_types({"convert_layout", {at}, {p}, {{"transpose", true}}});
      expect_both_types({"convert_layout", {strided({rows, columns}, {columns + 2, 1})}, {p}, {}});
      expect_both_types({"convert_layout", {p}, {a}, {}});
      expect_both_types({"convert_layout", {p}, {at}, {{"transpose", true}}});
      const Shape image{2, rows, columns, 3};
      expect_both_types({"convert_layout", {plain(image)}, {nhwc(image)}, {}});
      expect_both_types({"convert_layout", {nhwc(image)}, {plain(image)}, {}});
    }
}

// The statistics stay f32.
Request of_half_rows(Request request) {
  const Request whole = request;
  request = in_half(request);
  auto keep = [](std::vector<TensorSpec>& to, const std::vector<TensorSpec>& from, size_t first) {
    for (size_t i = first; i < first + 2; ++i) to[i] = from[i];
  };
  if (request.id == "layer_norm")
    keep(request.results, whole.results, 1);
  else
    keep(request.operands, whole.operands, 3);
  return request;
}

TEST(FootprintVariants, layer_norm_of_short_and_long_rows) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 5}, Shape{300, 33}, Shape{2, 70000}, Shape{130, 4, 16}}) {
    SCOPED_TRACE(ipu::to_string(shape));
    const auto rank = static_cast<int64_t>(shape.size());
    Shape kept = shape;
    kept.back() = 1;
    const TensorSpec x = plain(shape), w = plain({shape.back()}), s = plain(kept);
    const Request norm{"layer_norm", {x, w, w}, {x, s, s}, {{"axis", rank - 1}}};
    const Request gradient{
        "layer_norm_gradient", {x, w, w, s, s, x}, {x, w, w}, {{"axis", rank - 1}, {"wants", List{0, 1, 2}}}};
    for (const Request& request : {norm, gradient}) {
      guarded::expect_stays_inside(request);
      guarded::expect_stays_inside(of_half_rows(request));
    }
  }
}

TEST(FootprintVariants, softmax_and_losses_of_any_dimension) {
  for (const Shape& shape : {Shape{5}, Shape{3, 70}, Shape{2, 4, 5, 7}, Shape{2, 1500}, Shape{2, 3, 700}})
    for (const TensorSpec& x : {plain(shape), shape.size() > 2 ? nhwc(shape) : plain(shape)}) {
      SCOPED_TRACE(ipu::to_string(shape));
      for (size_t d = 0; d < shape.size(); ++d) {
        const Attributes dim{{"dim", static_cast<int64_t>(d)}};
        expect_both_types({"softmax", {x}, {x}, dim});
        expect_both_types({"log_softmax", {x}, {x}, dim});
        expect_both_types({"softmax_gradient", {x, x}, {x}, dim});
        expect_both_types({"log_softmax_gradient", {x, x}, {x}, dim});
      }
      Shape targets = shape;
      targets.erase(targets.begin() + (shape.size() == 1 ? 0 : 1));
      for (const char* reduction : {"mean", "sum", "none"}) {
        const TensorSpec y = plain(reduction == std::string("none") ? targets : Shape{});
        const Attributes how{{"reduction", std::string(reduction)}};
        Attributes smooth = how;
        smooth.set("label_smoothing", 0.1);
        expect_both_types({"nll_loss", {x, indices(targets)}, {y}, how});
        expect_both_types({"cross_entropy", {x, indices(targets)}, {y}, smooth});
        expect_both_types({"nll_loss_gradient", {y, x, indices(targets)}, {x}, how});
        expect_both_types({"cross_entropy_gradient", {y, x, indices(targets)}, {x}, smooth});
      }
    }
}

TEST(FootprintVariants, ctc_of_any_lengths) {
  for (int64_t times : {0, 1, 3, 20})
    for (int64_t labels : {0, 1, 3, 8}) {
      const TensorSpec x = plain({times, 3, 5}), targets = indices({3, labels}), lengths = indices({3});
      guarded::expect_stays_inside({"ctc_loss", {x, targets, lengths, lengths}, {plain({3})}, {}});
      guarded::expect_stays_inside(
          {"ctc_loss_gradient", {plain({3}), x, targets, lengths, lengths}, {x}, {{"blank", int64_t{4}}}});
    }
}

// Says no so many times, then yes.
class CountedStop final : public StopSignal {
 public:
  explicit CountedStop(int noes) : noes_(noes) {}
  bool raised() override { return asked++ >= noes_; }
  int asked = 0;

 private:
  int noes_;
};

// Every lane asks often, and no more than a few times after the answer was yes.
void expect_stops(const Request& request) {
  SCOPED_TRACE(request.id);
  const auto kernel = find_kernel(request.id)->prepare(request.request());
  ASSERT_NE(kernel, nullptr);
  const Footprint footprint = guarded::footprint_of(request);
  const std::vector<guarded::Bytes> contents = guarded::random_contents(request, footprint);
  CountedStop never(1 << 30), at_once(0);
  guarded::run(*kernel, request, footprint, contents, kernel_tests::Guard::kBehind, &never);
  guarded::run(*kernel, request, footprint, contents, kernel_tests::Guard::kBehind, &at_once);
  EXPECT_GE(never.asked, kernel->lanes());
  EXPECT_LE(at_once.asked, 8 * kernel->lanes());
}

TEST(FootprintVariants, long_lanes_ask_whether_to_stop) {
  for (bool half : {false, true}) {
    auto check = [&](const Request& request) { expect_stops(half ? in_half(request) : request); };
    const Shape image{4, 64, 64, 64};
    check({"matmul", {plain({512, 512}), plain({512, 512})}, {plain({512, 512})}, {}});
    check({"matmul", {plain({1024, 32, 32}), plain({1024, 32, 32})}, {plain({1024, 32, 32})}, {}});
    check({"linear", {plain({1, 6144}), plain({2560, 6144})}, {plain({1, 2560})}, {}});
    check({"linear", {plain({1, 6144}), packed({6144, 2560})}, {plain({1, 2560})}, {}});
    check({"linear_weight_gradient", {plain({512, 512}), plain({512, 512})}, {packed({512, 512})}, {}});
    const Attributes same{{"padding_low", List{1, 1}}, {"padding_high", List{1, 1}}};
    check({"conv", {nhwc(image), plain({64, 64, 3, 3})}, {nhwc(image)}, same});
    check({"conv_input_gradient", {plain(image), plain({64, 64, 3, 3})}, {plain(image)}, same});
    check({"conv_weight_gradient", {nhwc(image), nhwc(image)}, {plain({64, 64, 3, 3})}, same});
    Attributes depthwise = same, pool = same;
    depthwise.set("groups", int64_t{64});
    pool.set("kernel", List{3, 3});
    pool.set("strides", List{1, 1});
    check({"conv", {nhwc(image), plain({64, 1, 3, 3})}, {nhwc(image)}, depthwise});
    check({"max_pool", {nhwc(image)}, {nhwc(image)}, pool});
    check({"avg_pool_gradient", {plain(image)}, {plain(image)}, pool});
    check({"convert_layout", {plain(image)}, {nhwc(image)}, {}});
    check({"convert_layout", {plain({1024, 1024})}, {packed({1024, 1024})}, {}});
    check({"convert_layout", {packed({1024, 1024})}, {plain({1024, 1024})}, {{"transpose", true}}});
    const TensorSpec rows = plain({8192, 512});
    check({"softmax", {rows}, {rows}, {{"dim", int64_t{1}}}});
    check({"log_softmax_gradient", {rows, rows}, {rows}, {{"dim", int64_t{0}}}});
    check({"cross_entropy", {rows, indices({8192})}, {plain({})}, {}});
    check({"cross_entropy_gradient", {plain({}), rows, indices({8192})}, {rows}, {}});
  }
  const TensorSpec wide = plain({8192, 512}), column = plain({8192, 1}), row = plain({512});
  expect_stops({"layer_norm", {wide, row, row}, {wide, column, column}, {{"axis", int64_t{1}}}});
  expect_stops({"layer_norm_gradient",
                {wide, row, row, column, column, wide},
                {wide, row, row},
                {{"axis", int64_t{1}}, {"wants", List{0, 1, 2}}}});
  const TensorSpec x = plain({200, 2, 30}), targets = indices({2, 100}), lengths = indices({2});
  const Request ctc{"ctc_loss", {x, targets, lengths, lengths}, {plain({2})}, {}};
  const auto kernel = find_kernel("ctc_loss")->prepare(ctc.request());
  const Footprint footprint = guarded::footprint_of(ctc);
  auto contents = guarded::random_contents(ctc, footprint);
  for (const auto& [operand, length] : {std::pair<size_t, int32_t>{2, 200}, {3, 100}})
    for (size_t at = 0; at < contents[operand].size(); at += 4)
      std::memcpy(&contents[operand][at], &length, 4);
  CountedStop never(1 << 30);
  guarded::run(*kernel, ctc, footprint, contents, kernel_tests::Guard::kBehind, &never);
  EXPECT_GE(never.asked, 2 * kernel->lanes());
}

// A step whose memory is small and whose time is not: it ends when it is told to.
TEST(FootprintVariants, a_product_over_repeated_terms_can_be_stopped) {
  const int64_t depth = int64_t{1} << 38;
  for (DType dtype : {DType::kF32, DType::kF16}) {
    const Request request{
        "matmul",
        {{dtype, {64, depth}, {1, 0}, Layout::kPlain}, {dtype, {depth, 64}, {0, 1}, Layout::kPlain}},
        {TensorSpec::plain(dtype, {64, 64})},
        {}};
    const Footprint footprint = guarded::footprint_of(request);
    EXPECT_LE(footprint.operands[0].end, 256);
    const auto kernel = find_kernel("matmul")->prepare(request.request());
    ASSERT_NE(kernel, nullptr);
    CountedStop soon(100);
    guarded::run(*kernel, request, footprint, guarded::random_contents(request, footprint),
                 kernel_tests::Guard::kBehind, &soon);
    EXPECT_GE(soon.asked, 100);
  }
}

}  // namespace
}  // namespace ipu::kernels
