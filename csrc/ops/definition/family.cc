#include "ops/definition/family.h"

namespace ipu::ops {

std::vector<Sample> unary_samples(double low, double high, Attributes attributes) {
  return {{{f32({2, 3})}, attributes, low, high, {}},
          {{f32({67})}, attributes, low, high, {}},
          {{f32({})}, attributes, low, high, {}},
          {{f32({0, 4})}, attributes, low, high, {}},
          {{f16({3, 5})}, attributes, low, high, {}}};
}

std::vector<Sample> binary_samples(double low, double high) {
  return {{{f32({2, 3}), f32({2, 3})}, {}, low, high, {}},    {{f32({4, 3}), f32({3})}, {}, low, high, {}},
          {{f32({2, 1, 5}), f32({3, 1})}, {}, low, high, {}}, {{f32({}), f32({17})}, {}, low, high, {}},
          {{f32({0, 3}), f32({3})}, {}, low, high, {}},       {{f16({2, 5}), f16({5})}, {}, low, high, {}}};
}

std::vector<Sample> integer_samples(bool nonzero) {
  Sample sample{{i32({3, 4}), i32({4})}, {}, -9, 9, {}};
  if (nonzero) sample.range[1] = {1, 9};
  Sample negative = sample;
  if (nonzero) negative.range[1] = {-9, -1};
  return {sample, negative};
}

OpDefBuilder unary_op(std::string name, std::string family, std::string doc, Func func, DTypeSet dtypes) {
  OpDefBuilder builder(std::move(name), std::move(family));
  builder.doc(std::move(doc))
      .operand("x", dtypes)
      .result("y")
      .elementwise([func](std::span<const Expr> in, const Attributes&) { return unary(func, in[0]); });
  return builder;
}

std::function<void(GradientBuilder&)> unary_gradient(
    std::function<ir::Value*(GradientBuilder&, ir::Value*)> rule) {
  return [rule = std::move(rule)](GradientBuilder& g) { g.set(0, rule(g, g.upstream())); };
}

OpDefBuilder activation_gradient_op(std::string name, std::string first, std::string doc,
                                    std::function<Expr(Expr, Expr, const Attributes&)> tree) {
  OpDefBuilder builder(std::move(name), "activation");
  builder.doc(std::move(doc))
      .operand(std::move(first), kAnyFloat)
      .operand("dy", kAnyFloat)
      .result("dx")
      .elementwise([tree = std::move(tree)](std::span<const Expr> in, const Attributes& a) {
        return tree(in[0], in[1], a);
      })
      .gradient_by_expression()
      .samples({{{f32({2, 3}), f32({2, 3})}, {}, -3.0, 3.0, {}}, {{f16({7}), f16({7})}, {}, -3.0, 3.0, {}}});
  return builder;
}

std::function<void(AtenImportCall&)> import_binary(std::string kind) {
  return [kind = std::move(kind)](AtenImportCall& c) {
    const DType dtype = c.result_type(0).dtype;
    c.set_result(0, c.op(kind, {c.operand("self", dtype), c.operand("other", dtype)}));
  };
}

}  // namespace ipu::ops
