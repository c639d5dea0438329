// matmul: the one matrix product. Its importers (mm, bmm, aten::matmul and friends) are in
// matmul_importers.cc; they make broadcasting explicit, so that kernels and passes see two matrices or equal
// batches of them.
#include <fmt/core.h>

#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/linear/product_work.h"

namespace ipu::ops {
namespace {

struct Sizes {
  int64_t m, n, k_a, k_b;
};
Sizes sizes_of(const Shape& a, const Shape& b, bool trans_a, bool trans_b) {
  const int64_t a0 = a[a.size() - 2], a1 = a[a.size() - 1], b0 = b[b.size() - 2], b1 = b[b.size() - 1];
  return {trans_a ? a1 : a0, trans_b ? b0 : b1, trans_a ? a0 : a1, trans_b ? b1 : b0};
}

ir::Type matmul_type(const InferContext& c) {
  const ir::Type &a = c.operand(0), &b = c.operand(1);
  require_same_dtype(c, 0, 1);
  if (a.shape.size() < 2 || a.shape.size() != b.shape.size() ||
      !std::equal(a.shape.begin(), a.shape.end() - 2, b.shape.begin())) {
    shape_error(fmt::format("a {} and b {} must be matrices or equal batches of matrices", to_string(a.shape),
                            to_string(b.shape)));
  }
  const Sizes s =
      sizes_of(a.shape, b.shape, c.attributes.boolean("trans_a"), c.attributes.boolean("trans_b"));
  if (s.k_a != s.k_b) {
    shape_error(fmt::format("a {} has {} columns, b {} has {} rows (after transposition)", to_string(a.shape),
                            s.k_a, to_string(b.shape), s.k_b));
  }
  ir::Type y{a.dtype, Shape(a.shape.begin(), a.shape.end() - 2)};
  y.shape.push_back(s.m);
  y.shape.push_back(s.n);
  return y;
}

void matmul_reference(ReferenceCall& call) {
  const ReferenceTensor &a = call.operand(0), &b = call.operand(1);
  const bool trans_a = call.attributes.boolean("trans_a"), trans_b = call.attributes.boolean("trans_b");
  const Sizes s = sizes_of(a.type.shape, b.type.shape, trans_a, trans_b);
  const int64_t batches = element_count(std::span(a.type.shape).first(a.type.shape.size() - 2));
  for (int64_t batch = 0; batch < batches; ++batch) {
    const double* pa = a.values.data() + batch * s.m * s.k_a;
    const double* pb = b.values.data() + batch * s.n * s.k_a;
    double* py = call.result().values.data() + batch * s.m * s.n;
    for (int64_t m = 0; m < s.m; ++m) {
      for (int64_t k = 0; k < s.k_a; ++k) {
        const double left = pa[trans_a ? k * s.m + m : m * s.k_a + k];
        for (int64_t n = 0; n < s.n; ++n) py[m * s.n + n] += left * pb[trans_b ? n * s.k_a + k : k * s.n + n];
      }
    }
  }
}

// With C = op(A) op(B): dop(A) = dC op(B)^T and dop(B) = op(A)^T dC; a transposed operand takes the
// transposed product.
void matmul_gradient(GradientBuilder& g) {
  const bool trans_a = g.attributes().boolean("trans_a"), trans_b = g.attributes().boolean("trans_b");
  const auto product = [&g](ir::Value* left, ir::Value* right, bool trans_left, bool trans_right) {
    return g.op("matmul", {left, right}, {{"trans_a", trans_left}, {"trans_b", trans_right}});
  };
  ir::Value* dy = g.upstream();
  if (g.needs(0)) {
    g.set(0, trans_a ? product(g.operand(1), dy, trans_b, true) : product(dy, g.operand(1), false, !trans_b));
  }
  if (g.needs(1)) {
    g.set(1, trans_b ? product(dy, g.operand(0), true, trans_a) : product(g.operand(0), dy, !trans_a, false));
  }
}

std::vector<target::Work> matmul_work(const ir::Op& op) {
  const Shape &a = op.operand(0)->type().shape, &b = op.operand(1)->type().shape;
  const Sizes s =
      sizes_of(a, b, op.attributes.boolean("trans_a", false), op.attributes.boolean("trans_b", false));
  const int64_t groups = element_count(std::span(a).first(a.size() - 2));
  return product_work(op, {.groups = groups, .rows = s.m, .inputs = s.k_a, .outputs = s.n});
}

// The products of a batch, the rows of a, or the columns of b.
std::optional<int64_t> matmul_batch(BatchPart& part) {
  const int64_t a = part.axis(0), b = part.axis(1), rank = part.rank(0);
  if (a == b && a < rank - 2) return a;
  if (part.is_only_cut(0) && a == rank - (part.attributes.boolean("trans_a") ? 1 : 2)) return rank - 2;
  if (part.is_only_cut(1) && b == rank - (part.attributes.boolean("trans_b") ? 2 : 1)) return rank - 1;
  return std::nullopt;
}

const OpRegistration matmul =
    define_op("matmul", "linear")
        .doc(
            "Matrix product of a [..., M, K] and b [..., K, N], equal batch dimensions; trans_a and trans_b "
            "read the "
            "last two dimensions swapped.")
        .operand("a", kAnyFloat)
        .operand("b", kAnyFloat)
        .attribute("trans_a", false)
        .attribute("trans_b", false)
        .result("y")
        .traits(kMatmul | kExpensive)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{matmul_type(c)}; })
        .gradient(matmul_gradient)
        .reference(matmul_reference)
        .work(matmul_work)
        .batch(matmul_batch)
        .samples({{{f32({2, 3}), f32({3, 4})}, {}},
                  {{f32({3, 2}), f32({3, 4})}, {{"trans_a", true}}},
                  {{f32({2, 3}), f32({4, 3})}, {{"trans_b", true}}},
                  {{f32({3, 2}), f32({4, 3})}, {{"trans_a", true}, {"trans_b", true}}},
                  {{f32({2, 1, 2, 3}), f32({2, 1, 3, 2})}, {}},
                  {{f32({2, 3, 2}), f32({2, 2, 3})}, {{"trans_a", true}, {"trans_b", true}}}});

}  // namespace
}  // namespace ipu::ops
