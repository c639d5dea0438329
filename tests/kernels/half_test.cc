// The f16 forms of kernels against their f32 forms on the same rounded operands: the same numbers, rounded
// once. Shapes cover every way a product is computed (few rows, dots, tiles, pieces of k, lanes) and every
// mix of layouts of images.
#include <gtest/gtest.h>

#include "kernels/pointwise/program.h"
#include "kernels/tile_gemm/half_rows.h"
#include "tests/kernels/kernel_harness.h"

namespace ipu::kernels {
namespace {

// One unit in the last place of an f16, of `scale` where the sum cancelled.
void expect_rounded(const Values& half, const Values& wide, float scale, const std::string& what) {
  ASSERT_EQ(half.size(), wide.size()) << what;
  for (size_t i = 0; i < half.size(); ++i) {
    if (std::isnan(half[i]) && std::isnan(wide[i])) continue;
    const float want = half_to_float(float_to_half(wide[i]));
    ASSERT_NEAR(half[i], want, 0x1p-10f * std::fabs(want) + 4e-6f * scale) << what << " element " << i;
  }
}

void compare(const std::string& id, std::vector<TensorSpec> operands, std::vector<Values> values,
             std::vector<TensorSpec> results, const Attributes& attributes, const std::string& what,
             float scale = 1.0f) {
  for (Values& v : values) v = rounded(std::move(v));
  const KernelRun wide = run_kernel(id, operands, values, results, attributes);
  ASSERT_TRUE(wide.accepted) << what;
  for (TensorSpec& spec : operands) spec = as_half(spec);
  for (TensorSpec& spec : results) spec = as_half(spec);
  const KernelRun half = run_kernel(id, operands, values, results, attributes);
  ASSERT_TRUE(half.accepted) << what;
  for (size_t r = 0; r < results.size(); ++r)
    expect_rounded(half.results[r], wide.results[r], scale, id + " " + what);
}

struct Sizes {
  int64_t m, n, k;
  std::string text() const { return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k); }
};
const std::vector<Sizes> kSizes = {{1, 10, 512}, {1, 512, 784},  {32, 10, 512}, {32, 512, 784}, {7, 5, 3},
                                   {2, 100, 33}, {65, 65, 65},   {3, 64, 64},   {130, 200, 70}, {1, 1, 1},
                                   {4, 1, 900},  {300, 17, 600}, {0, 5, 4},     {5, 0, 4},      {5, 6, 0},
                                   {20, 130, 1}, {9, 33, 1500},  {4, 48, 31},   {3, 130, 1100}};
const std::vector<Sizes> kLarge = {{400, 700, 90}, {1, 3000, 900}, {150, 200, 700}};  // several lanes

TEST(HalfProduct, matmul_is_the_rounded_f32_product) {
  for (const Sizes& s : kSizes)
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        for (bool pack : {false, true}) {
          const Shape as = ta ? Shape{s.k, s.m} : Shape{s.m, s.k},
                      bs = tb ? Shape{s.n, s.k} : Shape{s.k, s.n};
          compare("matmul", {f32(as), pack ? packed(bs) : f32(bs)},
                  {random_values(s.m * s.k, 1), random_values(s.k * s.n, 2)}, {f32({s.m, s.n})},
                  {{"trans_a", ta}, {"trans_b", tb}},
                  s.text() + (ta ? " ta" : "") + (tb ? " tb" : "") + (pack ? " packed" : ""), 30.0f);
        }
}

TEST(HalfProduct, lanes_of_large_products_are_the_rounded_f32_ones) {
  for (const Sizes& s : kLarge)
    for (bool pack : {false, true})
      compare("linear", {f32({s.m, s.k}), pack ? packed({s.k, s.n}) : f32({s.n, s.k})},
              {random_values(s.m * s.k, 1), random_values(s.k * s.n, 2)}, {f32({s.m, s.n})}, {}, s.text(),
              30.0f);
}

TEST(HalfProduct, strided_batches_are_read_in_place) {
  const int64_t batch = 2, heads = 3, length = 37, depth = 20;
  TensorSpec view = f32({batch, heads, length, depth});
  view.strides = {length * heads * depth, depth, heads * depth, 1};
  const int64_t count = batch * heads * length * depth;
  compare("matmul", {view, view}, {random_values(count, 1), random_values(count, 2)},
          {f32({batch, heads, length, length})}, {{"trans_b", true}}, "scores");
  compare("matmul", {f32({batch, heads, length, length}), view},
          {random_values(batch * heads * length * length, 3), random_values(count, 2)}, {view}, {},
          "context");
}

// Lines of a multiple of 256 rows, widened, would share few sets of a cache: they lie further apart.
TEST(HalfProduct, blocks_of_256_transposed_rows_give_the_rounded_f32_product) {
  for (const Sizes& s : std::vector<Sizes>{{256, 64, 300}, {512, 130, 520}, {1024, 256, 260}})
    compare("matmul", {f32({s.k, s.m}), f32({s.k, s.n})},
            {random_values(s.m * s.k, 1), random_values(s.k * s.n, 2)}, {f32({s.m, s.n})},
            {{"trans_a", true}, {"trans_b", false}}, s.text(), 30.0f);
}

TEST(HalfProduct, linear_and_its_gradients_are_the_rounded_f32_ones) {
  for (const Sizes& s : kSizes)
    for (bool pack : {false, true}) {
      const std::string what = s.text() + (pack ? " packed" : "");
      const TensorSpec x = f32({s.m, s.k}), dy = f32({s.m, s.n});
      const TensorSpec w = pack ? packed({s.k, s.n}) : f32({s.n, s.k});
      const Values xs = random_values(s.m * s.k, 1), ws = random_values(s.k * s.n, 2),
                   bias = random_values(s.n, 3), dys = random_values(s.m * s.n, 4);
      compare("linear", {x, w}, {xs, ws}, {dy}, {}, what, 30.0f);
      compare("linear", {x, w, f32({s.n})}, {xs, ws, bias}, {dy}, {{"activation", "relu"}}, what + " relu",
              30.0f);
      compare("linear_input_gradient", {dy, w}, {dys, ws}, {x}, {}, what, 30.0f);
      compare("linear_weight_gradient", {x, dy}, {xs, dys}, {w}, {}, what, 30.0f);
    }
}

// What ends a product is rounded as the ops that it stands for, to the bit; leading dimensions, pieces of k, few
// rows, dots and rows that share a widened B included.
TEST(HalfProduct, ends_are_those_of_separate_ops) {
  const auto add_halves = [](const Values& a, const Values& b) {
    Values sum;
    for (size_t i = 0; i < a.size(); ++i) sum.push_back(a[i] + b[i]);
    return rounded(std::move(sum));
  };
  for (const Sizes& s : std::vector<Sizes>{{1, 512, 784},
                                           {2, 100, 33},
                                           {32, 10, 512},
                                           {65, 65, 65},
                                           {9, 33, 1500},
                                           {300, 130, 600},
                                           {3, 5, 0}})
    for (bool pack : {false, true})
      for (const char* activation : {"none", "relu", "gelu"})
        for (bool has_addend : {false, true}) {
          const std::string what =
              s.text() + (pack ? " packed " : " ") + activation + (has_addend ? " +" : "");
          const std::vector<TensorSpec> operands{as_half(f32({s.m, s.k})),
                                                 as_half(pack ? packed({s.k, s.n}) : f32({s.n, s.k})),
                                                 as_half(f32({s.n}))};
          const TensorSpec y = as_half(f32({s.m, s.n}));
          const std::vector<Values> values{rounded(random_values(s.m * s.k, 1)),
                                           rounded(random_values(s.k * s.n, 2)),
                                           rounded(random_values(s.n, 3))};
          const Values addend = rounded(random_values(s.m * s.n, 4));
          Values want = run_kernel("linear", operands, values, {y}, {}).results[0];
          if (std::string(activation) != "none") {
            const OpCode code = std::string(activation) == "gelu" ? OpCode::kGeluF : OpCode::kMaxF;
            PointwiseProgram program;
            program.code = {{OpCode::kLoad}, {OpCode::kConstF}, {code, 0, code == OpCode::kMaxF ? 1 : -1}};
            program.outputs = {2};
            want = run_kernel("pointwise", {y}, {want}, {y}, program.to_attributes()).results[0];
          }
          std::vector<TensorSpec> more = operands;
          std::vector<Values> with = values;
          if (has_addend) {
            want = add_halves(want, addend);
            more.push_back(y);
            with.push_back(addend);
          }
          const KernelRun fused =
              run_kernel("fused_linear", more, with, {y}, {{"activation", std::string(activation)}});
          ASSERT_TRUE(fused.accepted) << what;
          ASSERT_EQ(fused.results[0], want) << what;
        }
}

// One instruction after the other through memory, against all of them in one program: each way in which a pass reads
// and writes halves (widened on the way, rounded into a register, stored), on ends of vectors too.
TEST(HalfPointwise, a_program_gives_the_numbers_of_its_instructions_one_by_one) {
  using enum OpCode;
  PointwiseProgram whole;
  whole.code = {{kLoad, -1, -1, -1, 0},
                {kLoad, -1, -1, -1, 1},
                {kAddF, 0, 1},
                {kRoundF16, 2},
                {kTanhF, 3},
                {kRoundF16, 4},
                {kMulF, 5, 1},
                {kRoundF16, 6},
                {kConstF, -1, -1, -1, 0, 0.3},
                {kSubF, 8, 7},
                {kRoundF16, 9},
                {kMaxF, 10, 7},
                {kSigmoidF, 11},
                {kRoundF16, 12}};
  whole.outputs = {13, 7, 13};  // one is read by others too, one stands twice
  for (const int64_t n : {1, 7, 16, 33, 2053, 40000}) {
    const TensorSpec half = as_half(f32({n}));
    const Values a = rounded(random_values(n, 1)), b = rounded(random_values(n, 2));
    const auto one = [&](OpCode code, const std::vector<Values>& operands) {
      PointwiseProgram program;
      for (size_t i = 0; i < operands.size(); ++i)
        program.code.push_back({kLoad, -1, -1, -1, static_cast<int32_t>(i)});
      program.code.push_back({code, 0, operands.size() > 1 ? 1 : -1});
      program.outputs = {static_cast<int32_t>(operands.size())};
      return run_kernel("pointwise", std::vector<TensorSpec>(operands.size(), half), operands, {half},
                        program.to_attributes())
          .results[0];
    };
    // The constant is no half: it stands beside the halves in f32.
    PointwiseProgram difference;
    difference.code = {{kLoad, -1, -1, -1, 0}, {kConstF, -1, -1, -1, 0, 0.3}, {kSubF, 1, 0}};
    difference.outputs = {2};
    const Values product = one(kMulF, {one(kTanhF, {one(kAddF, {a, b})}), b});
    const Values rest =
        run_kernel("pointwise", {half}, {product}, {half}, difference.to_attributes()).results[0];
    const Values last = one(kSigmoidF, {one(kMaxF, {rest, product})});
    const KernelRun run =
        run_kernel("pointwise", {half, half}, {a, b}, {half, half, half}, whole.to_attributes());
    ASSERT_TRUE(run.accepted);
    EXPECT_EQ(run.results[0], last) << n;
    EXPECT_EQ(run.results[1], product) << n;
    EXPECT_EQ(run.results[2], last) << n;
  }
}

struct ConvCase {
  int64_t batch, in, out, groups;
  std::vector<int64_t> size, kernel, strides, low, high, dilations;
  Shape shape(int64_t channels, const std::vector<int64_t>& spatial) const {
    Shape s{batch, channels};
    s.insert(s.end(), spatial.begin(), spatial.end());
    return s;
  }
  Shape x() const { return shape(in, size); }
  Shape w() const {
    Shape s{out, in / groups};
    s.insert(s.end(), kernel.begin(), kernel.end());
    return s;
  }
  Shape y() const {
    std::vector<int64_t> spatial;
    for (size_t d = 0; d < size.size(); ++d)
      spatial.push_back((size[d] + low[d] + high[d] - dilations[d] * (kernel[d] - 1) - 1) / strides[d] + 1);
    return shape(out, spatial);
  }
};
const std::vector<ConvCase> kConvolutions = {
    {2, 1, 6, 1, {28, 28}, {5, 5}, {1, 1}, {2, 2}, {2, 2}, {1, 1}},
    {3, 6, 16, 1, {14, 14}, {5, 5}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {1, 3, 20, 1, {9, 11}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, 70, 130, 1, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 64, 128, 1, {8, 8}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {1, 256, 300, 1, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 8, 12, 4, {10, 9}, {3, 2}, {2, 3}, {2, 0}, {1, 3}, {2, 1}},
    {2, 36, 36, 36, {12, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 4, 12, 4, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {3, 10, 9, 1, {21}, {3}, {1}, {1}, {1}, {1}},
    {2, 6, 10, 2, {30}, {5}, {2}, {0}, {3}, {2}},
    {0, 3, 4, 1, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
};

TEST(HalfConvolution, forward_and_gradients_are_the_rounded_f32_ones_in_every_mix_of_layouts) {
  for (const ConvCase& c : kConvolutions) {
    const Attributes base{{"strides", c.strides},
                          {"padding_low", c.low},
                          {"padding_high", c.high},
                          {"dilations", c.dilations},
                          {"groups", c.groups}};
    Attributes relu = base, input = base, kernel = base;
    relu.set("activation", "relu");
    input.set("input_shape", c.x());
    kernel.set("kernel_shape", c.w());
    const Values xs = random_values(element_count(c.x()), 1), ws = random_values(element_count(c.w()), 2),
                 dys = random_values(element_count(c.y()), 3), bias = random_values(c.out, 4);
    for (bool x_last : {false, true})
      for (bool y_last : {false, true}) {
        const std::string what =
            ipu::to_string(c.x()) + (x_last ? " x last" : "") + (y_last ? " y last" : "");
        const TensorSpec x = x_last ? nhwc(c.x()) : f32(c.x()), y = y_last ? nhwc(c.y()) : f32(c.y());
        compare("conv", {x, f32(c.w())}, {xs, ws}, {y}, base, what, 30.0f);
        compare("conv", {x, f32(c.w()), f32({c.out})}, {xs, ws, bias}, {y}, relu, what + " relu", 30.0f);
        if (c.groups == 1) {
          int64_t taps = 1;
          for (int64_t k : c.kernel) taps *= k;
          // Any matrix will do: both forms read the same packed one.
          const TensorSpec panels = packed({taps * c.in, c.out});
          compare("conv", {x, panels}, {xs, ws}, {y}, kernel, what + " packed", 30.0f);
          Attributes both = input;
          both.set("kernel_shape", c.w());
          compare("conv_input_gradient", {y, panels}, {dys, ws}, {x}, both, what + " packed", 30.0f);
          compare("conv_weight_gradient", {x, y}, {xs, dys}, {panels}, kernel, what + " packed", 60.0f);
        }
        compare("conv_input_gradient", {y, f32(c.w())}, {dys, ws}, {x}, input, what, 30.0f);
        compare("conv_weight_gradient", {x, y}, {xs, dys}, {f32(c.w())}, kernel, what, 60.0f);
      }
  }
}

TEST(HalfPooling, windows_and_their_gradients_are_the_rounded_f32_ones_in_every_mix_of_layouts) {
  struct Case {
    Shape x, y;
    std::vector<int64_t> kernel, strides, low, high;
  };
  for (const Case& c : std::vector<Case>{{{2, 6, 8, 8}, {2, 6, 4, 4}, {2, 2}, {2, 2}, {0, 0}, {0, 0}},
                                         {{2, 17, 9, 10}, {2, 17, 5, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
                                         {{3, 5, 21}, {3, 5, 10}, {3}, {2}, {0}, {0}}}) {
    Attributes attributes{
        {"kernel", c.kernel}, {"strides", c.strides}, {"padding_low", c.low}, {"padding_high", c.high}};
    const Values xs = rounded(random_values(element_count(c.x), 1)),
                 dys = random_values(element_count(c.y), 2);
    const Values ys = run_kernel("max_pool", {f32(c.x)}, {xs}, {f32(c.y)}, attributes).results[0];
    for (bool x_last : {false, true})
      for (bool y_last : {false, true}) {
        const TensorSpec x = x_last ? nhwc(c.x) : f32(c.x), y = y_last ? nhwc(c.y) : f32(c.y);
        const std::string what = ipu::to_string(c.x) + (x_last ? " x last" : "") + (y_last ? " y last" : "");
        compare("max_pool", {x}, {xs}, {y}, attributes, what, 0.0f);
        compare("avg_pool", {x}, {xs}, {y}, attributes, what);
        compare("max_pool_gradient", {x, y, y}, {xs, ys, dys}, {x}, attributes, what);
        Attributes shaped = attributes;
        shaped.set("input_shape", c.x);
        compare("avg_pool_gradient", {y}, {dys}, {x}, shaped, what);
      }
  }
}

TEST(HalfLayout, matrices_kernels_and_images_convert_there_and_back) {
  auto there_and_back = [](TensorSpec plain, TensorSpec stored, const Attributes& attributes) {
    const Values values = rounded(random_values(element_count(plain.shape), 1));
    const KernelRun there =
        run_kernel("convert_layout", {as_half(plain)}, {values}, {as_half(stored)}, attributes);
    const KernelRun wide = run_kernel("convert_layout", {plain}, {values}, {stored}, attributes);
    ASSERT_TRUE(there.accepted && wide.accepted);
    EXPECT_TRUE(same_bits(there.stored[0], wide.stored[0])) << ipu::to_string(plain.shape);
    const KernelRun back =
        run_kernel("convert_layout", {as_half(stored)}, {there.results[0]}, {as_half(plain)}, attributes);
    ASSERT_TRUE(back.accepted);
    EXPECT_TRUE(same_bits(back.results[0], values)) << ipu::to_string(plain.shape);
  };
  for (auto [k, n] :
       std::vector<std::pair<int64_t, int64_t>>{{512, 10}, {3, 5}, {64, 64}, {100, 70}, {17, 63}}) {
    there_and_back(f32({k, n}), packed({k, n}), {});
    there_and_back(f32({n, k}), packed({k, n}), {{"transpose", true}});
  }
  there_and_back(f32({70, 3, 5, 5}), packed({75, 70}), {{"conv_weight", true}});
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{1, 64, 9, 9}, Shape{3, 16, 11}})
    there_and_back(f32(shape), nhwc(shape), {});
}

TEST(HalfRows, every_f16_widens_and_narrows_to_itself_at_every_length) {
  std::vector<Half> bits(65536), back(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<Half>(i);
  std::vector<float> wide(65536);
  for (int64_t count : {1, 3, 16, 17, 65536}) {
    for (int64_t at = 0; at + count <= 65536; at += count) {
      widen_rows(bits.data() + at, count, wide.data() + at, count, 1, count);
      narrow_rows(wide.data() + at, count, back.data() + at, count, 1, count);
    }
    for (int64_t i = 0; i < 65536 / count * count; ++i) {
      const auto b = bits[static_cast<size_t>(i)];
      if (std::isnan(half_to_float(b))) {
        EXPECT_TRUE(std::isnan(half_to_float(back[static_cast<size_t>(i)])));
        continue;
      }
      ASSERT_EQ(back[static_cast<size_t>(i)], b);
      ASSERT_EQ(wide[static_cast<size_t>(i)], half_to_float(b));
    }
  }
}

}  // namespace
}  // namespace ipu::kernels
