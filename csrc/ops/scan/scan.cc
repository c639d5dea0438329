// cumsum and cumprod along one dimension. The gradient of a product up to each element is computed without a
// division, so zeros are no special case: P(i) * S(i), P the product before i, S(i) = dy(i) + x(i+1) *
// S(i+1).
#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

std::vector<ir::Type> scan_type(const InferContext& c) {
  dimension(c, "dim", c.operand(0).shape.size());
  return {{c.operand(0).dtype, c.operand(0).shape}};
}

// Calls row(element 0, stride, size) for each row along dim.
template <typename Row>
void for_each_row(const ReferenceCall& call, Row row) {
  const Split3 s = split_at(call.operand(0).type.shape, call.attributes.integer("dim"));
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t i = 0; i < s.inner; ++i) row(o * s.size * s.inner + i, s.inner, s.size);
}

// So many products for each element, again and again with those twice as far away.
std::vector<target::Work> doubling_work(const ir::Op& op, int64_t products) {
  const ir::Type& x = op.operand(0)->type();
  int64_t rounds = 0;
  for (int64_t size = split_at(x.shape, op.attributes.integer("dim")).size; size > 1; size = (size + 1) / 2)
    ++rounds;
  return {{pass_over(x, {"Mul"}, 2).form, rounds * products}, {rearrangement_of(x, 1).form, rounds}};
}

void import_scan(AtenImportCall& call, std::string_view kind) {
  ir::Value* x = call.cast(call.tensor("self"), call.result_type(0).dtype);
  const size_t rank = x->type().shape.size();
  if (rank == 0) return call.set_result(0, x);
  call.set_result(0, call.op(kind, {x}, {{"dim", normalize_dim(call.integer("dim"), rank)}}));
}

const OpRegistration cumsum =
    define_op("cumsum", "scan")
        .doc("Sum of the elements of x up to each one along dim; with reverse, from each one on.")
        .operand("x", kNumber)
        .attribute("dim")
        .attribute("reverse", false)
        .result("y")
        .infer(scan_type)
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("cumsum", {g.upstream()},
                        {{"dim", g.attributes().integer("dim")},
                         {"reverse", !g.attributes().boolean("reverse")}}));
        })
        .reference([](ReferenceCall& call) {
          const std::vector<double>& x = call.operand(0).values;
          const bool reverse = call.attributes.boolean("reverse");
          for_each_row(call, [&](int64_t at, int64_t stride, int64_t size) {
            double sum = 0.0;
            for (int64_t n = 0; n < size; ++n) {
              const int64_t k = at + (reverse ? size - 1 - n : n) * stride;
              call.result().values[k] = sum += x[k];
            }
          });
        })
        // The library multiplies lines by a triangle of ones, in f32.
        .work([](const ir::Op& op) {
          const ir::Type& x = op.operand(0)->type();
          const Split3 s = split_at(x.shape, op.attributes.integer("dim"));
          if (x.elements() == 0) return std::vector<target::Work>{};
          const target::ProductShape shape{.rows = s.outer * s.inner, .inputs = s.size, .outputs = s.size};
          return std::vector<target::Work>{{target::ProductWork{.shape = shape}}};
        })
        .from_aten({"cumsum"}, [](AtenImportCall& call) { import_scan(call, "cumsum"); })
        .samples({{{f32({3, 5})}, {{"dim", int64_t{1}}}},
                  {{f32({2, 4, 3})}, {{"dim", int64_t{1}}, {"reverse", true}}},
                  {{ir::Type{DType::kF16, {6}}}, {{"dim", int64_t{0}}}},
                  {{i32({4, 2})}, {{"dim", int64_t{0}}}, -9, 9}});

const OpRegistration cumprod =
    define_op("cumprod", "scan")
        .doc("Product of the elements of x up to each one along dim.")
        .operand("x", kNumber)
        .attribute("dim")
        .result("y")
        .infer(scan_type)
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("cumprod_gradient", {g.upstream(), g.operand(0)},
                        {{"dim", g.attributes().integer("dim")}}));
        })
        .reference([](ReferenceCall& call) {
          const std::vector<double>& x = call.operand(0).values;
          for_each_row(call, [&](int64_t at, int64_t stride, int64_t size) {
            double product = 1.0;
            for (int64_t n = 0; n < size; ++n)
              call.result().values[at + n * stride] = product *= x[at + n * stride];
          });
        })
        .work([](const ir::Op& op) { return doubling_work(op, 1); })
        .from_aten({"cumprod"}, [](AtenImportCall& call) { import_scan(call, "cumprod"); })
        .samples({{{f32({3, 5})}, {{"dim", int64_t{1}}}},
                  {{f32({2, 4, 3})}, {{"dim", int64_t{1}}}},
                  {{i32({4, 2})}, {{"dim", int64_t{0}}}, -3, 3}});

const OpRegistration cumprod_gradient =
    define_op("cumprod_gradient", "scan")
        .doc("Gradient of cumprod for x, without a division.")
        .operand("dy", kAnyFloat)
        .operand("x", kAnyFloat)
        .attribute("dim")
        .result("dx")
        .infer([](const InferContext& c) {
          require_same_dtype(c, 0, 1);
          require_same_shape(c, 0, 1);
          return scan_type(c);
        })
        .gradient_refused("a cumulative product can be differentiated once")
        .work([](const ir::Op& op) { return doubling_work(op, 3); })
        .reference([](ReferenceCall& call) {
          const std::vector<double>&dy = call.operand(0).values, &x = call.operand(1).values;
          std::vector<double>& dx = call.result().values;
          for_each_row(call, [&](int64_t at, int64_t stride, int64_t size) {
            double after = 0.0, before = 1.0;
            for (int64_t n = size; n-- > 0;) {
              const int64_t k = at + n * stride;
              after = dy[k] + (n + 1 < size ? x[k + stride] * after : 0.0);
              dx[k] = after;
            }
            for (int64_t n = 0; n < size; ++n) {
              const int64_t k = at + n * stride;
              dx[k] *= before;
              before *= x[k];
            }
          });
        })
        .samples({{{f32({3, 5}), f32({3, 5})}, {{"dim", int64_t{1}}}},
                  {{f32({2, 4, 3}), f32({2, 4, 3})}, {{"dim", int64_t{1}}}}});

}  // namespace
}  // namespace ipu::ops
