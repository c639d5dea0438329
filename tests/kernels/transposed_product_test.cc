// Few rows against a transposed B: the bits of the product that reads B by plain rows, however B is stored and cut.
#include "kernels/tile_gemm/transposed_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/tile_gemm/half_product.h"
#include "kernels/tile_gemm/product.h"
#include "tests/kernels/kernel_harness.h"

namespace ipu::kernels {
namespace {

using Form = MatrixSource::Form;

template <class T>
std::vector<T> elements(int64_t count, int seed);
template <>
std::vector<float> elements(int64_t count, int seed) {
  return random_values(count, seed);
}
template <>
std::vector<Half> elements(int64_t count, int seed) {
  std::vector<Half> halves;
  for (float value : random_values(count, seed)) halves.push_back(float_to_half(value));
  return halves;
}

struct Sizes {
  int64_t m, n, k;
};

// B [k, n], of which `stored` holds the transpose by rows, as `form` stores it.
template <class T>
std::vector<T> in_form(const std::vector<T>& stored, Form form, const Sizes& s) {
  if (form == Form::kTransposed) return stored;
  const size_t floats = static_cast<size_t>(panel_count(s.k) * panel_width(s.k) * s.n);
  std::vector<T> to(form == Form::kRows ? stored.size() : floats);
  if (form == Form::kTransposedPanels) {
    pack_panels({Form::kRows, s.n, s.k, s.k}, stored.data(), to.data(), 0, panel_count(s.k));
  } else {
    for (int64_t j = 0; j < s.n; ++j)
      for (int64_t p = 0; p < s.k; ++p)
        to[static_cast<size_t>(p * s.n + j)] = stored[static_cast<size_t>(j * s.k + p)];
  }
  return to;
}

template <class Kind, class T>
std::vector<T> product(const Sizes& s, Form form, const std::vector<T>& stored, int lanes,
                       TileProvider provider) {
  const int64_t lda = s.k + 3;
  const std::vector<T> a = elements<T>(s.m * lda, 1), bias = elements<T>(s.n, 3),
                       addend = elements<T>(s.m * s.n, 4);
  const std::vector<T> b = in_form(stored, form, s);
  ProductShape shape;
  shape.m = s.m;
  shape.n = shape.ldc = s.n;
  shape.k = s.k;
  shape.lda = lda;
  shape.b = {form, s.k, s.n, form == Form::kRows ? s.n : s.k};
  shape.activation = Activation::kGelu;
  shape.max_lanes = lanes;
  shape.provider = provider;
  const Kind kind(shape);
  EXPECT_LE(kind.lanes(), lanes);
  std::vector<T> c(static_cast<size_t>(s.m * s.n));
  const KernelCall nobody_stops{};
  StopMeter meter(nobody_stops);
  for (int lane = kind.lanes(); lane-- > 0;) {
    std::vector<float> scratch(static_cast<size_t>(kind.scratch_bytes() / 4 + 1), NAN);
    kind.run(a.data(), b.data(), bias.data(), c.data(), reinterpret_cast<std::byte*>(scratch.data()), lane,
             meter, addend.data());
  }
  return c;
}

// Panels that a piece of k cuts, remainders of rows, columns and depth, several blocks of columns of a lane.
const std::vector<Sizes> kSizes = {{16, 150, 700}, {17, 70, 784},  {32, 130, 1100}, {33, 64, 512},
                                   {64, 5, 130},   {48, 600, 200}, {20, 1200, 150}};

template <class Kind, class T>
void expect_bits_of_plain_rows(int64_t fewest_by_rows) {
  for (const Sizes& s : kSizes) {
    const std::vector<T> stored = elements<T>(s.n * s.k, 2);
    const std::vector<T> expected = product<Kind>(s, Form::kRows, stored, 1, TileProvider::kGenerated);
    for (Form form : {Form::kTransposed, Form::kTransposedPanels}) {
      if (form == Form::kTransposed && s.m < fewest_by_rows) continue;  // dot products: other chains
      for (int lanes : {1, 3, 16})
        for (TileProvider provider : {TileProvider::kGenerated, TileProvider::kPortable})
          EXPECT_TRUE((product<Kind>(s, form, stored, lanes, provider) == expected))
              << s.m << "x" << s.n << "x" << s.k << " form " << static_cast<int>(form) << " lanes " << lanes;
    }
  }
}

TEST(TransposedProduct, has_the_bits_of_plain_rows) { expect_bits_of_plain_rows<Product, float>(14); }
TEST(TransposedProduct, of_halves_has_the_bits_of_plain_rows) {
  expect_bits_of_plain_rows<HalfProduct, Half>(26);
}

TEST(TransposedProduct, is_cut_into_few_lanes_for_each_transposes_a) {
  EXPECT_EQ(TransposedProduct::most_lanes(100), 4);
  EXPECT_EQ(TransposedProduct::most_lanes(3072), 12);
}

// Plain rows of B that lie far apart are copied first, for however few rows of A.
TEST(Product, rows_of_b_that_lie_far_apart_give_the_bits_of_near_ones) {
  const int64_t n = 90, k = 700, far = 2048;
  for (const int64_t m : {2, 8, 40, 100, 200}) {
    const Values a = random_values(m * k, 1), b = random_values(k * n, 2);
    Values first;
    for (const int64_t stride : {n, int64_t{200}, far}) {
      Values stored(static_cast<size_t>(k * stride), NAN);
      for (int64_t p = 0; p < k; ++p) std::copy_n(b.begin() + p * n, n, stored.begin() + p * stride);
      ProductShape shape;
      shape.m = m;
      shape.n = shape.ldc = n;
      shape.k = shape.lda = k;
      shape.b = {Form::kRows, k, n, stride};
      const Product product(shape);
      Values c(static_cast<size_t>(m * n), NAN);
      const KernelCall nobody_stops{};
      StopMeter meter(nobody_stops);
      for (int lane = product.lanes(); lane-- > 0;) {
        std::vector<float> scratch(static_cast<size_t>(product.scratch_bytes() / 4 + 1), NAN);
        product.run(a.data(), stored.data(), nullptr, c.data(), reinterpret_cast<std::byte*>(scratch.data()),
                    lane, meter);
      }
      if (first.empty()) first = c;
      EXPECT_TRUE(same_bits(c, first)) << m << " rows, stride " << stride;
    }
  }
}

}  // namespace
}  // namespace ipu::kernels
