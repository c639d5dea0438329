// Fused attention: the bits of the products and the softmax it stands for, and f64 formulas for long sequences.
#include "tests/kernels/kernel_runner.h"

namespace ipu::kernels::kernel_tests {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  Shape batch;
  int64_t rows, keys, width, out;
  std::string what;
};

Shape joined(Shape batch, int64_t rows, int64_t columns) {
  batch.insert(batch.end(), {rows, columns});
  return batch;
}

struct Operands {
  Tensor query, key, value, result;
  Operands(const Case& c, std::mt19937& random)
      : query(Tensor::plain(DType::kF32, joined(c.batch, c.rows, c.width)).randomize(random, -2, 2)),
        key(Tensor::plain(DType::kF32, joined(c.batch, c.keys, c.width)).randomize(random, -2, 2)),
        value(Tensor::plain(DType::kF32, joined(c.batch, c.keys, c.out)).randomize(random)),
        result(Tensor::plain(DType::kF32, joined(c.batch, c.rows, c.out))) {}
};

struct Composed {
  Tensor result, weights;
};

// What the ops before the fusion make, one after the other. mask and addend have the shape of the scores.
Composed composed(const Case& c, const Operands& o, const Tensor* mask, const Tensor* addend,
                  const Attributes& attributes) {
  Tensor scores = Tensor::plain(DType::kF32, joined(c.batch, c.rows, c.keys)), weights = scores, y = o.result;
  run("matmul", {&o.query, &o.key}, {&scores}, {{"trans_b", true}});
  float* s = scores.as<float>();
  for (int64_t i = 0; i < scores.elements(); ++i) {
    s[i] *= static_cast<float>(attributes.real("scale", 1.0));
    if (attributes.boolean("causal", false) && i % c.keys > i / c.keys % c.rows) s[i] = -INFINITY;
    if (mask != nullptr && (mask->at(i) != 0.0) != attributes.boolean("keeps", true))
      s[i] = static_cast<float>(attributes.real("blocked", -kInfinity));
    if (addend != nullptr) s[i] += addend->as<float>()[i];
  }
  run("softmax", {&scores}, {&weights},
      {{"dim", static_cast<int64_t>(c.batch.size()) + 1},
       {"zero_blocked", attributes.boolean("zero_blocked", false)}});
  run("matmul", {&weights, &o.value}, {&y});
  return {y, weights};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {{}, 64, 64, 64, 64, "one head of whole blocks"},
      {{2, 3}, 70, 90, 40, 24, "remainders of all kinds"},
      {{5}, 16, 7, 3, 1, "few keys"},
      {{2}, 33, 300, 16, 80, "more than one panel of the value"},
      {{1, 2}, 130, 512, 64, 64, "blocks of 64 rows and two"},
      {{0, 2}, 20, 20, 4, 4, "no heads"},
      {{2}, 20, 5, 0, 3, "no width"},
  };
  return list;
}

TEST(Attention, HasTheBitsOfTheOpsItStandsFor) {
  std::mt19937 random(1);
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.what);
    Operands o(c, random);
    const Shape scores = joined(c.batch, c.rows, c.keys);
    Tensor mask = Tensor::plain(DType::kBool, scores).randomize(random);
    Tensor addend = Tensor::plain(DType::kF32, scores).randomize(random);
    struct Form {
      const Tensor *mask, *addend;
      Attributes attributes;
    };
    const Form forms[] = {
        {nullptr, nullptr, {}},
        {nullptr, nullptr, {{"scale", 0.3}, {"causal", true}}},
        {&mask, nullptr, {{"scale", 0.125}, {"zero_blocked", true}}},
        {&mask, &addend, {{"keeps", false}, {"blocked", -3.0}}},
        {nullptr, &addend, {{"scale", 2.0}, {"zero_blocked", true}}},
    };
    for (const Form& f : forms) {
      std::vector<std::vector<std::byte>> bits;
      for_each_vector_isa([&](Isa) {
        const Composed want = composed(c, o, f.mask, f.addend, f.attributes);
        const std::vector<const Tensor*> operands{&o.query, &o.key, &o.value, f.mask, f.addend};
        const auto kernel = prepare("fused_attention", operands, {&o.result}, f.attributes);
        ASSERT_NE(kernel, nullptr);
        for (bool reversed : {false, true}) {
          Tensor y = o.result;
          run(*kernel, operands, {&y}, nullptr, reversed);
          EXPECT_EQ(y.bytes, want.result.bytes) << f.attributes.has("causal");
        }
        Tensor y = o.result, weights = want.weights;
        std::fill(weights.bytes.begin(), weights.bytes.end(), std::byte{0x7f});
        run("fused_attention_with_weights", operands, {&y, &weights}, f.attributes);
        EXPECT_EQ(y.bytes, want.result.bytes);
        EXPECT_EQ(weights.bytes, want.weights.bytes);
        bits.push_back(want.result.bytes);
      });
      for (const auto& other : bits) EXPECT_EQ(other, bits[0]);
    }
  }
}

// Rows whose softmax and whose second product are summed in parts; causal blocks of several widths.
TEST(Attention, IsTheFormulaForLongSequences) {
  std::mt19937 random(2);
  for (bool causal : {false, true}) {
    const Case c{{2}, 700, 2500, 8, 5, "long"};
    Operands o(c, random);
    Tensor addend = Tensor::plain(DType::kF32, {c.keys}).randomize(random);
    run("fused_attention", {&o.query, &o.key, &o.value, nullptr, &addend}, {&o.result},
        {{"scale", 0.5}, {"causal", causal}});
    for (int64_t i = 0; i < 2 * c.rows; i += 97) {
      const int64_t head = i / c.rows, seen = causal ? std::min(c.keys, i % c.rows + 1) : c.keys;
      std::vector<double> want(static_cast<size_t>(c.out));
      double sum = 0.0;
      for (int64_t j = 0; j < seen; ++j) {
        double s = 0.0;
        for (int64_t e = 0; e < c.width; ++e)
          s += o.query.at(i * c.width + e) * o.key.at((head * c.keys + j) * c.width + e);
        const double weight = std::exp(0.5 * s + addend.at(j));
        sum += weight;
        for (int64_t n = 0; n < c.out; ++n)
          want[static_cast<size_t>(n)] += weight * o.value.at((head * c.keys + j) * c.out + n);
      }
      for (int64_t n = 0; n < c.out; ++n)
        EXPECT_NEAR(o.result.at(i * c.out + n), want[static_cast<size_t>(n)] / sum, 1e-6) << i;
    }
  }
}

// Heads that lie within rows, as models make them of one product; masks that broadcast.
TEST(Attention, ReadsHeadsInPlaceAndMasksThatBroadcast) {
  std::mt19937 random(3);
  const int64_t batch = 2, rows = 40, heads = 3, width = 8;
  const Strides within{rows * heads * width, width, heads * width, 1};
  const TensorSpec spec{DType::kF32, {batch, heads, rows, width}, within, Layout::kPlain};
  Tensor query = Tensor::with(spec).randomize(random), key = Tensor::with(spec).randomize(random),
         value = Tensor::with(spec).randomize(random), result = Tensor::with(spec);
  Tensor mask = Tensor::plain(DType::kBool, {batch, 1, 1, rows}).randomize(random);
  run("fused_attention", {&query, &key, &value, &mask}, {&result});

  const Case c{{batch, heads}, rows, rows, width, width, ""};
  Operands o(c, random);
  Tensor all = Tensor::plain(DType::kBool, {batch, heads, rows, rows});
  for (int64_t i = 0; i < all.elements(); ++i)
    all.set(i, mask.at(i / (heads * rows * rows) * rows + i % rows));
  o.query.fill(query.values());
  o.key.fill(key.values());
  o.value.fill(value.values());
  EXPECT_EQ(result.values(), composed(c, o, &all, nullptr, {}).result.values());
}

// Scores and weights are f32 there: what is left is the rounding of the result.
TEST(Attention, RoundsHalvesOnce) {
  std::mt19937 random(4);
  const int64_t heads = 3, rows = 70, keys = 90, width = 20, out = 24;
  const Case c{{heads}, rows, keys, width, out, ""};
  Operands o(c, random);
  const auto half = [](const Tensor& t) {
    Tensor h = Tensor::plain(DType::kF16, t.spec.shape);
    h.fill(t.values());
    return h;
  };
  Tensor addend = Tensor::plain(DType::kF32, {rows, keys}).randomize(random);
  const Tensor q = half(o.query), k = half(o.key), v = half(o.value), a = half(addend);
  Tensor mask = Tensor::plain(DType::kBool, {keys}).randomize(random), y = half(o.result);
  mask.set(0, 1.0);  // no row is blocked
  for (const Tensor* given : {static_cast<const Tensor*>(nullptr), &a}) {
    const Attributes attributes{{"scale", 0.25}, {"causal", given == nullptr}};
    run("fused_attention", {&q, &k, &v, &mask, given}, {&y}, attributes);
    o.query.fill(q.values());
    o.key.fill(k.values());
    o.value.fill(v.values());
    addend.fill(a.values());
    run("fused_attention", {&o.query, &o.key, &o.value, &mask, given == nullptr ? nullptr : &addend},
        {&o.result}, attributes);
    for (int64_t i = 0; i < y.elements(); ++i)
      ASSERT_EQ(y.at(i), half_to_float(float_to_half(static_cast<float>(o.result.at(i))))) << i;
  }
}

TEST(Attention, RefusesWhatItCannotRead) {
  Tensor q = Tensor::plain(DType::kF32, {2, 20, 4}), half = Tensor::plain(DType::kF16, {2, 20, 4}),
         number = Tensor::plain(DType::kF32, {}), column = Tensor::plain(DType::kF32, {20, 1}),
         narrow = Tensor::plain(DType::kF32, {2, 20, 3}), mask = Tensor::plain(DType::kF32, {20});
  const auto accepts = [&](std::vector<const Tensor*> operands) {
    return prepare("fused_attention", operands, {&q}, {}) != nullptr;
  };
  EXPECT_TRUE(accepts({&q, &q, &q}));
  EXPECT_FALSE(accepts({&q, &q, &half}));
  EXPECT_FALSE(accepts({&q, &narrow, &q}));
  EXPECT_FALSE(accepts({&q, &q, &q, &mask}));
  EXPECT_FALSE(accepts({&q, &q, &q, nullptr, &number}));
  EXPECT_FALSE(accepts({&q, &q, &q, nullptr, &column}));
}

}  // namespace
}  // namespace ipu::kernels::kernel_tests
