// The tile: one chain of fused multiply-adds per element, whoever provides it and however the product is cut.
#include "kernels/tile_gemm/tile_gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "kernels/tile_gemm/instruction_set.h"
#include "kernels/tile_gemm/product.h"
#include "support/error.h"
#include "tests/kernels/kernel_harness.h"

namespace ipu::kernels {
namespace {

Values chain(const TileShape& s, const Values& a, const Values& b, Values c) {
  for (int64_t i = 0; i < s.rows; ++i)
    for (int64_t j = 0; j < s.columns; ++j) {
      float sum = s.accumulate ? c[static_cast<size_t>(i * s.ldc + j)] : 0.0f;
      for (int64_t p = 0; p < s.depth; ++p)
        sum = std::fma(a[static_cast<size_t>(s.transposed_a ? p * s.lda + i : i * s.lda + p)],
                       b[static_cast<size_t>(p * s.ldb + j)], sum);
      c[static_cast<size_t>(i * s.ldc + j)] = sum;
    }
  return c;
}

TEST(TileGemm, both_providers_give_the_bits_of_one_fma_chain) {
  for (bool transposed : {false, true})
    for (int64_t rows : {1, 2, 3, 5, 8, 9, 11, 12, 13, 17, 31, 33, 64})
      for (int64_t columns : {1, 3, 7, 8, 10, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 100})
        for (int64_t depth : {1, 2, 9, 16, 30, 65, 200}) {
          TileShape s{rows,        columns,     depth,      (transposed ? rows : depth) + 3,
                      columns + 2, columns + 5, transposed, (rows + columns + depth) % 2 == 0};
          const Values a = random_values((transposed ? depth : rows) * s.lda, 1);
          const Values b = random_values(depth * s.ldb, 2), c = random_values(rows * s.ldc, 3);
          const Values expected = chain(s, a, b, c);
          for (TileProvider provider : {TileProvider::kGenerated, TileProvider::kPortable}) {
            Values actual = c;
            TileGemm(s, provider)(a.data(), b.data(), actual.data());
            ASSERT_TRUE(same_bits(actual, expected))
                << rows << "x" << columns << "x" << depth << (transposed ? " transposed" : "")
                << (provider == TileProvider::kPortable ? " portable" : " generated");
          }
        }
}

TEST(TileGemm, batches_continue_the_chain_and_leave_the_offsets_alone) {
  for (int64_t rows : {1, 4, 12, 28})
    for (int64_t columns : {6, 16, 64})
      for (int64_t depth : {5, 30, 192}) {
        // 12 rows: rows of A overlap, as in a convolution over nhwc pixels.
        TileShape s{rows, columns, depth, rows == 12 ? 4 : depth, columns, columns + 1, false, false};
        const int64_t count = 3;
        const Values a = random_values(count * 100 + rows * depth, 1),
                     b = random_values(count * depth * columns, 2);
        std::vector<uint64_t> a_offsets, b_offsets;
        Values expected(static_cast<size_t>(rows * s.ldc), 0.0f);
        TileShape one = s;
        for (int64_t i = 0; i < count; ++i, one.accumulate = true) {
          a_offsets.push_back(static_cast<uint64_t>(400 * i));
          b_offsets.push_back(static_cast<uint64_t>(4 * i * depth * columns));
          expected = chain(one, Values(a.begin() + 100 * i, a.end()),
                           Values(b.begin() + i * depth * columns, b.end()), expected);
        }
        for (TileProvider provider : {TileProvider::kGenerated, TileProvider::kPortable}) {
          Values actual(expected.size(), 0.0f);
          const auto a_before = a_offsets, b_before = b_offsets;
          BatchTileGemm tile(s, provider);
          tile(a.data(), b.data(), actual.data(), a_offsets.data(), b_offsets.data(), count);
          ASSERT_TRUE(same_bits(actual, expected)) << rows << "x" << columns << "x" << depth;
          EXPECT_EQ(a_before, a_offsets);
          EXPECT_EQ(b_before, b_offsets);
        }
      }
}

TEST(TileGemm, generated_code_serves_the_usual_tile) {
  if (instruction_set() == InstructionSet::kPortable) GTEST_SKIP();
  EXPECT_TRUE(TileGemm({32, 64, 128, 128, 64, 64}).is_generated());
  EXPECT_TRUE(BatchTileGemm({32, 64, 64, 64, 64, 64}).is_generated());
}

TEST(InstructionSet, environment_pins_the_level_or_is_refused) {
  EXPECT_EQ(instruction_set_from("", InstructionSet::kAvx512), InstructionSet::kAvx512);
  EXPECT_EQ(instruction_set_from("native", InstructionSet::kAvx2), InstructionSet::kAvx2);
  EXPECT_EQ(instruction_set_from("portable", InstructionSet::kAvx512), InstructionSet::kPortable);
  for (const char* text : {"avx512", "sse9"}) try {
      instruction_set_from(text, InstructionSet::kAvx2);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kEnvironment);
      EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
    }
}

TEST(Product, bits_do_not_depend_on_lanes_or_provider) {
  for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {96, 200, 1100}, {300, 130, 520}, {1, 700, 2000}, {5, 333, 100}, {11, 90, 500}, {35, 150, 700}})
    for (auto form : {MatrixSource::Form::kRows, MatrixSource::Form::kTransposed, MatrixSource::Form::kPanels,
                      MatrixSource::Form::kTransposedPanels}) {
      const int64_t stored = form == MatrixSource::Form::kPanels ? panel_count(n) * panel_width(n) * k
                             : form == MatrixSource::Form::kTransposedPanels
                                 ? panel_count(k) * panel_width(k) * n
                                 : n * k;
      const Values a = random_values(m * k, 1), bias = random_values(n, 3);
      Values b = random_values(stored, 2);
      Values first;
      for (int lanes : {1, 3, 7, 16})
        for (TileProvider provider : {TileProvider::kGenerated, TileProvider::kPortable}) {
          ProductShape shape;
          shape.m = m;
          shape.n = n;
          shape.k = k;
          shape.lda = k;
          shape.b = {form, k, n, form == MatrixSource::Form::kRows ? n : k};
          shape.ldc = n;
          shape.activation = Activation::kRelu;
          shape.max_lanes = lanes;
          shape.provider = provider;
          Product product(shape);
          EXPECT_LE(product.lanes(), lanes);
          Values c(static_cast<size_t>(m * n), NAN);
          const KernelCall nobody_stops{};
          StopMeter meter(nobody_stops);
          for (int lane = product.lanes(); lane-- > 0;) {
            std::vector<float> scratch(static_cast<size_t>(product.scratch_bytes() / 4 + 1), NAN);
            product.run(a.data(), b.data(), bias.data(), c.data(),
                        reinterpret_cast<std::byte*>(scratch.data()), lane, meter);
          }
          if (first.empty()) first = c;
          EXPECT_TRUE(same_bits(c, first)) << m << "x" << n << "x" << k << " lanes " << lanes;
        }
    }
}

// Rows of A that lie a multiple of 1 KB apart are copied first: the same bits as where they lie any other way.
TEST(Product, transposed_rows_give_the_same_bits_wherever_they_lie) {
  for (auto [m, n, k] :
       std::vector<std::array<int64_t, 3>>{{256, 200, 1100}, {300, 600, 520}, {700, 128, 64}}) {
    const Values a = random_values(k * m, 1), b = random_values(k * n, 2);
    Values first;
    for (const int64_t lda : {m, (m + 255) / 256 * 256, (m + 255) / 256 * 256 + 16})
      for (const bool packed_c : {false, true})
        for (const int lanes : {1, 4, 16}) {
          Values stored(static_cast<size_t>(k * lda), NAN);
          for (int64_t p = 0; p < k; ++p) std::copy_n(a.begin() + p * m, m, stored.begin() + p * lda);
          ProductShape shape;
          shape.m = m;
          shape.n = n;
          shape.k = k;
          shape.transposed_a = true;
          shape.lda = lda;
          shape.b = {MatrixSource::Form::kRows, k, n, n};
          shape.packed_c = packed_c;
          shape.ldc = n;
          shape.max_lanes = lanes;
          const Product product(shape);
          const int64_t width = panel_width(n);
          Values c(static_cast<size_t>(packed_c ? panel_count(n) * width * m : m * n), NAN);
          const KernelCall nobody_stops{};
          StopMeter meter(nobody_stops);
          for (int lane = product.lanes(); lane-- > 0;) {
            std::vector<float> scratch(static_cast<size_t>(product.scratch_bytes() / 4 + 1), NAN);
            product.run(stored.data(), b.data(), nullptr, c.data(),
                        reinterpret_cast<std::byte*>(scratch.data()), lane, meter);
          }
          Values plain(static_cast<size_t>(m * n));
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j)
              plain[static_cast<size_t>(i * n + j)] =
                  c[static_cast<size_t>(packed_c ? (j / width * m + i) * width + j % width : i * n + j)];
          if (first.empty()) {
            first = plain;
            std::vector<double> expected(static_cast<size_t>(m * n));
            for (int64_t p = 0; p < k; ++p)
              for (int64_t i = 0; i < m; ++i)
                for (int64_t j = 0; j < n; ++j)
                  expected[static_cast<size_t>(i * n + j)] +=
                      double{a[static_cast<size_t>(p * m + i)]} * b[static_cast<size_t>(p * n + j)];
            expect_close(plain, expected, 1e-6, "a product with transposed A");
          }
          EXPECT_TRUE(same_bits(plain, first))
              << m << "x" << n << "x" << k << " lda " << lda << " lanes " << lanes;
        }
  }
}

// Long rows of a large A are copied first: the same bits as of few of them, which are read where they lie.
TEST(Product, long_rows_of_a_large_operand_give_the_bits_of_few) {
  const int64_t m = 900, n = 300, k = 1300, few = 100, lda = k + 8;
  const Values a = random_values(m * lda, 1), bias = random_values(n, 3);
  for (auto form :
       {MatrixSource::Form::kRows, MatrixSource::Form::kTransposed, MatrixSource::Form::kPanels}) {
    const bool panels = form == MatrixSource::Form::kPanels;
    const Values b = random_values(panels ? panel_count(n) * panel_width(n) * k : n * k, 2);
    ProductShape shape;
    shape.n = shape.ldc = n;
    shape.k = k;
    shape.lda = lda;
    shape.b = {form, k, n, form == MatrixSource::Form::kRows ? n : k};
    auto run = [&](int64_t first, int64_t rows, int lanes, Values& c) {
      shape.m = rows;
      shape.max_lanes = lanes;
      const Product product(shape);
      const KernelCall nobody_stops{};
      StopMeter meter(nobody_stops);
      for (int lane = product.lanes(); lane-- > 0;) {
        std::vector<float> scratch(static_cast<size_t>(product.scratch_bytes() / 4 + 1), NAN);
        product.run(a.data() + first * lda, b.data(), bias.data(), c.data() + first * n,
                    reinterpret_cast<std::byte*>(scratch.data()), lane, meter);
      }
    };
    Values expected(static_cast<size_t>(m * n), NAN);
    for (int64_t first = 0; first < m; first += few) run(first, few, 1, expected);
    for (const int lanes : {1, 5, 16}) {
      Values c(static_cast<size_t>(m * n), NAN);
      run(0, m, lanes, c);
      EXPECT_TRUE(same_bits(c, expected)) << static_cast<int>(form) << " lanes " << lanes;
    }
  }
}

TEST(Product, large_products_are_cut_into_lanes_and_small_ones_are_not) {
  ProductShape shape;
  shape.m = 32;
  shape.n = shape.ldc = 10;
  shape.k = shape.lda = 512;
  shape.b = {MatrixSource::Form::kPanels, 512, 10, 0};
  EXPECT_EQ(Product(shape).lanes(), 1);
  shape.n = shape.ldc = 3072;
  shape.b.columns = 3072;
  EXPECT_GE(Product(shape).lanes(), 2);
}

}  // namespace
}  // namespace ipu::kernels
