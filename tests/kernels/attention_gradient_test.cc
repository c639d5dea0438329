// The gradient of fused attention: the bits of the products and the softmax's gradient that it stands for.
#include "tests/kernels/kernel_runner.h"

namespace ipu::kernels::kernel_tests {
namespace {

struct Case {
  Shape batch;
  int64_t rows, keys, width, out;
  std::string what;
};

Tensor of(const Case& c, int64_t rows, int64_t columns) {
  Shape shape = c.batch;
  shape.insert(shape.end(), {rows, columns});
  return Tensor::plain(DType::kF32, shape);
}

struct Operands {
  Tensor query, key, value, weights, d_y;
};

Operands operands_of(const Case& c, std::mt19937& random, bool causal) {
  Operands o{of(c, c.rows, c.width).randomize(random), of(c, c.keys, c.width).randomize(random),
             of(c, c.keys, c.out).randomize(random),
             of(c, c.rows, c.keys).randomize(random, 0.0, 2.0 / static_cast<double>(c.keys)),
             of(c, c.rows, c.out).randomize(random)};
  if (causal)
    for (int64_t i = 0; i < o.weights.elements(); ++i)
      if (i % c.keys > i / c.keys % c.rows) o.weights.set(i, 0.0);
  return o;
}

struct Gradients {
  Tensor query, key, value;
};

Gradients composed(const Case& c, const Operands& o, const Tensor* mask, const Attributes& attributes) {
  Tensor d_weights = o.weights, d_scores = o.weights;
  Gradients g{o.query, o.key, o.value};
  run("matmul", {&o.d_y, &o.value}, {&d_weights}, {{"trans_b", true}});
  run("matmul", {&o.weights, &o.d_y}, {&g.value}, {{"trans_a", true}});
  run("softmax_gradient", {&o.weights, &d_weights}, {&d_scores},
      {{"dim", static_cast<int64_t>(c.batch.size()) + 1}});
  float* s = d_scores.as<float>();
  for (int64_t i = 0; i < d_scores.elements(); ++i) {
    if (mask != nullptr && (mask->at(i) != 0.0) != attributes.boolean("keeps", true)) s[i] = 0.0f;
    if (attributes.boolean("causal", false) && i % c.keys > i / c.keys % c.rows) s[i] = 0.0f;
    s[i] *= static_cast<float>(attributes.real("scale", 1.0));
  }
  run("matmul", {&d_scores, &o.key}, {&g.query});
  run("matmul", {&d_scores, &o.query}, {&g.key}, {{"trans_a", true}});
  return g;
}

void expect_close(const Tensor& got, const Tensor& want, const char* which) {
  for (int64_t i = 0; i < got.elements(); ++i)
    ASSERT_NEAR(got.at(i), want.at(i), 1e-6 * (1 + std::fabs(want.at(i)))) << which << " " << i;
}

TEST(AttentionGradient, HasTheBitsOfTheOpsItStandsFor) {
  const Case cases[] = {
      {{}, 64, 64, 64, 64, "one head of a whole block"},
      {{2, 3}, 70, 90, 40, 24, "remainders of all kinds"},
      {{5}, 16, 7, 3, 1, "few keys"},
      {{2}, 33, 300, 16, 80, "more than one tile of the value"},
      {{2}, 130, 512, 64, 64, "blocks of 64 rows and two"},
      {{2}, 1100, 40, 8, 8, "three pieces of rows"},
      {{0, 2}, 20, 20, 4, 4, "no heads"},
  };
  std::mt19937 random(1);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    for (bool causal : {false, true}) {
      const Operands o = operands_of(c, random, causal);
      Tensor mask = Tensor::plain(DType::kBool, o.weights.spec.shape).randomize(random);
      const std::pair<const Tensor*, Attributes> forms[] = {
          {nullptr, {{"causal", causal}}},
          {nullptr, {{"causal", causal}, {"scale", 0.3}}},
          {&mask, {{"causal", causal}}},
          {&mask, {{"causal", causal}, {"scale", 2.5}, {"keeps", false}}},
      };
      for (const auto& [given, attributes] : forms) {
        std::vector<std::vector<std::byte>> bits;
        for_each_vector_isa([&, given = given, &attributes = attributes](Isa) {
          const Gradients want = composed(c, o, given, attributes);
          Gradients got{o.query, o.key, o.value};
          std::vector<const Tensor*> operands{&o.query, &o.key, &o.value, &o.weights, &o.d_y};
          if (given != nullptr) operands.push_back(given);
          const auto kernel =
              prepare("fused_attention_gradient", operands, {&got.query, &got.key, &got.value}, attributes);
          ASSERT_NE(kernel, nullptr);
          for (bool reversed : {false, true}) {
            run(*kernel, operands, {&got.query, &got.key, &got.value}, nullptr, reversed);
            EXPECT_EQ(got.query.bytes, want.query.bytes);
            EXPECT_EQ(got.key.bytes, want.key.bytes);
            EXPECT_EQ(got.value.bytes, want.value.bytes);
          }
          bits.push_back(got.key.bytes);
        });
        for (const auto& other : bits) EXPECT_EQ(other, bits[0]);
      }
    }
  }
}

// Rows that are summed in parts, and causal blocks of several widths.
TEST(AttentionGradient, IsNearThoseOpsForLongSequences) {
  const Case c{{2}, 700, 2500, 8, 5, ""};
  std::mt19937 random(2);
  for (bool causal : {false, true}) {
    const Operands o = operands_of(c, random, causal);
    Gradients got{o.query, o.key, o.value};
    run("fused_attention_gradient", {&o.query, &o.key, &o.value, &o.weights, &o.d_y},
        {&got.query, &got.key, &got.value}, {{"causal", causal}, {"scale", 0.5}});
    const Gradients want = composed(c, o, nullptr, {{"causal", causal}, {"scale", 0.5}});
    expect_close(got.query, want.query, "query");
    expect_close(got.key, want.key, "key");
    expect_close(got.value, want.value, "value");
  }
}

TEST(AttentionGradient, RefusesWhatItCannotRead) {
  Tensor q = Tensor::plain(DType::kF32, {2, 20, 4}), w = Tensor::plain(DType::kF32, {2, 20, 20}),
         half = Tensor::plain(DType::kF16, {2, 20, 4}), narrow = Tensor::plain(DType::kF32, {2, 20, 3}),
         mask = Tensor::plain(DType::kF32, {20});
  const auto accepts = [&](std::vector<const Tensor*> operands, const Tensor& d_key) {
    return prepare("fused_attention_gradient", operands, {&q, &d_key, &q}, {}) != nullptr;
  };
  EXPECT_TRUE(accepts({&q, &q, &q, &w, &q}, q));
  EXPECT_FALSE(accepts({&q, &q, &half, &w, &q}, q));
  EXPECT_FALSE(accepts({&q, &narrow, &q, &w, &q}, q));
  EXPECT_FALSE(accepts({&q, &q, &q, &q, &q}, q));
  EXPECT_FALSE(accepts({&q, &q, &q, &w, &narrow}, q));
  EXPECT_FALSE(accepts({&q, &q, &q, &w, &q}, narrow));
  EXPECT_FALSE(accepts({&q, &q, &q, &w, &q, &mask}, q));
}

}  // namespace
}  // namespace ipu::kernels::kernel_tests
