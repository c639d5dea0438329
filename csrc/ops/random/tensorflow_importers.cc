// Importers of TensorFlow's random op types. Numbers come from the generator of the program: an op with seeds of its own has a stream that
// follows from them, so equal seeds give equal numbers; the others have one each.
#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "ops/control/body_calls.h"
#include "ops/definition/tensorflow_nodes.h"
#include "ops/random/random_support.h"

namespace ipu::ops {
namespace {

// A stream beyond those that are numbered.
int64_t stream_of_seeds(int64_t seed, int64_t seed2) {
  auto mixed = static_cast<uint64_t>(seed) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(seed2);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  constexpr uint64_t kBeyond = uint64_t{1} << 30;
  return static_cast<int64_t>(((mixed ^ (mixed >> 31)) & (kBeyond - 1)) | kBeyond);
}

int64_t stream_of(NodeImportCall& call) {
  const int64_t seed = call.has("seed") ? call.wide_integer("seed") : 0,
                seed2 = call.has("seed2") ? call.wide_integer("seed2") : 0;
  return seed == 0 && seed2 == 0 ? call.next_stream() : stream_of_seeds(seed, seed2);
}

ir::Value* drawn_by(NodeImportCall& call, std::string_view kind, Attributes attributes) {
  attributes.set("stream_id", stream_of(call));
  return call.op(kind, {call.seed()}, std::move(attributes));
}

// Types of stateless ops take two numbers that say it all, as operand 1.
ir::Value* stateless_seed(NodeImportCall& call) {
  return call.op("cast", {call.operand(1)}, {{"dtype", DType::kU32}});
}
ir::Value* drawn_statelessly(NodeImportCall& call, std::string_view kind, Attributes attributes) {
  return call.op(kind, {stateless_seed(call)}, std::move(attributes));
}

// Version 2 of them takes what StatelessRandomGetKeyCounter makes of the two numbers: here themselves, as the key.
ir::Value* drawn_by_key(NodeImportCall& call, std::string_view kind, Attributes attributes) {
  call.operand(2);      // the counter, which is zero
  call.has_operand(3);  // the algorithm
  return call.op(kind, {call.operand(1)}, std::move(attributes));
}

void import_key(NodeImportCall& call) {
  call.ignore("Tseed");
  call.set_result(0, call.op("cast", {call.operand(0)}, {{"dtype", DType::kU32}}));
  call.set_result(1, call.builder().splat({DType::kU32, {2}}, 0.0));
  if (call.result_count() > 2) call.set_constant(2, constant_of(DType::kI32, {}, {1.0}));
}

void import_algorithm(NodeImportCall& call) { call.set_constant(0, constant_of(DType::kI32, {}, {1.0})); }

using Draw = ir::Value* (*)(NodeImportCall&, std::string_view kind, Attributes attributes);

Shape drawn_shape(NodeImportCall& call) { return operand_sizes(call, 0, "shape"); }

void import_floats(NodeImportCall& call, const char* kind, Draw draw) {
  const DType dtype = tensorflow_dtype(call, "dtype");
  if (!is_floating_point(dtype)) call.unsupported(fmt::format("random numbers of {}", to_string(dtype)));
  call.set_result(0, draw(call, kind, {{"shape", drawn_shape(call)}, {"dtype", dtype}}));
}

// Normal numbers within two standard deviations, by inversion of the distribution function: sqrt(2) erfinv(u) for u in (-c, c), c =
// erf(sqrt(2)). There -log(1 - u²) is below 2.5, where one polynomial of M. Giles ("Approximating the erfinv function", 2010) is exact to
// single precision.
void import_truncated_normal(NodeImportCall& call, Draw draw) {
  static constexpr double kCoefficients[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                             -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                             -0.00417768164,  0.246640727,    1.50140941};
  const DType dtype = tensorflow_dtype(call, "dtype");
  const double bound = std::erf(std::numbers::sqrt2);
  const Term u{
      call, draw(call, "random_uniform", {{"shape", drawn_shape(call)}, {"low", -bound}, {"high", bound}})};
  const Term w = -((-square(u)).op("log1p")) - 2.5;
  Term sum = w * kCoefficients[0] + kCoefficients[1];
  for (size_t i = 2; i < std::size(kCoefficients); ++i) sum = sum * w + kCoefficients[i];
  const Term z = (sum * u * std::numbers::sqrt2).op("clamp", {{"min", -2.0}, {"max", 2.0}});
  set_result(call, z.cast(dtype));
}

// In [low, high), whose numbers follow operands `low` and `low` + 1.
void import_integers(NodeImportCall& call, Draw draw, int low) {
  call.ignore("Tout");
  const ConstantPtr first = call.constant(low), last = call.constant(low + 1);
  const Term bits{call, draw(call, "random_bits", {{"shape", drawn_shape(call)}})};
  const auto bound = [&](int i) { return Term(call, call.cast(call.operand(i), DType::kI32)); };
  const Term width = (bound(low + 1) - bound(low)).cast(DType::kU32);
  set_result(call, Term::op("remainder", bits, width).cast(DType::kI32) + bound(low));
}

void import_shuffle(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  if (x->type().shape.empty()) return call.set_result(0, call.op("nop", {x}));
  ir::Value* order = drawn_by(call, "random_permutation", {{"size", x->type().shape[0]}});
  call.set_result(0, call.op("index_select", {x, order}, {{"dim", int64_t{0}}}));
}

// Classes drawn for each row of log probabilities [B, C]: the largest of them with Gumbel noise.
void import_multinomial(NodeImportCall& call) {
  call.ignore("output_dtype");
  const Term logits = term(call, 0).cast(DType::kF32);
  const Shape shape = logits.value()->type().shape;
  if (shape.size() != 2)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {}, which is no rows of classes.", call.described(),
                            to_string(shape)));
  const int64_t samples = operand_integer(call, 1, "num_samples");
  const Term u{call, drawn_by(call, "random_uniform", {{"shape", Shape{shape[0], samples, shape[1]}}})};
  // 1 - u is in (0, 1]; where it is 1 the noise is infinite, and the class is taken.
  const Term noise = -((-((-u).op("log1p"))).op("log"));
  const Term rows{call, reshaped(call, logits.value(), {shape[0], 1, shape[1]})};
  set_result(call, (rows + noise).op("argmax", {{"dim", int64_t{2}}}));
}

// x with a share of its elements dropped by the two numbers of operand 1, of which the gradient draws the same. With sizes of a mask,
// each of x or 1, elements along a dimension are dropped together.
void import_dropout(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const ir::Type type = x->type();
  const double rate = call.real("rate");
  if (rate == 0.0) {
    call.operand(1);
    if (call.has("mask")) call.ignore("mask");
    return call.set_result(0, call.op("nop", {x}));
  }
  const Attributes attributes{{"p", rate}};
  if (!call.has("mask")) return call.set_result(0, call.op("dropout", {x, stateless_seed(call)}, attributes));
  const Shape mask = call.integers("mask");
  if (broadcast_shapes(type.shape, mask) != type.shape || mask.size() != type.shape.size())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {} and a mask of {}.", call.described(),
                            to_string(type.shape), to_string(mask)));
  ir::Value* ones = call.builder().splat({type.dtype, mask}, 1.0);
  call.set_result(0, call.op("mul", {x, call.op("dropout", {ones, stateless_seed(call)}, attributes)}));
}

// Candidate classes, of which a row of classes below `range_max` is drawn; the chance of each, of a class counted from 0.
struct Sampler {
  int64_t classes;
  bool is_logarithmic;  // the chance of class c falls as log((c + 2) / (c + 1))

  Term drawn(const Term& uniform) const {
    const double most = static_cast<double>(classes - 1);
    const Term place = is_logarithmic ? exp(uniform * std::log(static_cast<double>(classes) + 1.0)) - 1.0
                                      : uniform * static_cast<double>(classes);
    return place.op("floor").op("clamp", {{"min", 0.0}, {"max", most}}).cast(DType::kI32);
  }
  Term chance(const Term& number) const {
    const Term c = number.cast(DType::kF32);
    if (!is_logarithmic) return c * 0.0 + 1.0 / static_cast<double>(classes);
    return (1.0 / (c + 1.0)).op("log1p") / std::log(static_cast<double>(classes) + 1.0);
  }
};

// Draws until there are `count` different classes. Returns them, and how often was drawn.
GraphValues drawn_once_each(NodeImportCall& call, const Sampler& sampler, int64_t count) {
  const int64_t stream = stream_of(call);
  const auto number = [&](double value) { return call.builder().scalar(DType::kI32, value); };
  const GraphValues starts{call.builder().splat({DType::kI32, {count}}, -1.0), number(0.0), number(0.0)};
  return repeated(
      call, "draw_candidates", std::numeric_limits<int32_t>::max(), starts, {call.seed()},
      [&](ir::Value* index, const GraphValues& v, const GraphValues& stays) {
        ir::Value* seed = call.op("random_seed", {stays[0], index});
        const Term candidate = sampler.drawn(
            {call, call.op("random_uniform", {seed}, {{"shape", Shape{1}}, {"stream_id", stream}})});
        const Term known{call, v[0]}, there{call, v[1]};
        const Term is_new{
            call,
            call.op(
                "logical_not",
                {(known == candidate).op("reduce_any", {{"dims", Shape{0}}, {"keep_dims", false}}).value()})};
        const Term place{
            call,
            call.op("iota", {}, {{"shape", Shape{count}}, {"dim", int64_t{0}}, {"dtype", DType::kI32}})};
        const Term next = ((place == there) && is_new).choose(candidate, known);
        const Term after = there + is_new.cast(DType::kI32);
        return GraphValues{(after < static_cast<double>(count)).value(), next.value(), after.value(),
                           (Term(call, v[2]) + 1.0).value()};
      },
      true);
}

void import_candidates(NodeImportCall& call, bool is_logarithmic) {
  const Sampler sampler{call.integer("range_max"), is_logarithmic};
  const int64_t count = call.integer("num_sampled");
  const bool is_unique = call.boolean("unique");
  call.ignore("num_true");
  if (count < 1 || sampler.classes < 1 || (is_unique && count > sampler.classes))
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("value out of range: {} draws {} of {} classes{}.", call.described(), count,
                            sampler.classes, is_unique ? ", each once" : ""));
  ir::Value *drawn = nullptr, *tries = nullptr;
  if (is_unique) {
    const GraphValues found = drawn_once_each(call, sampler, count);
    drawn = found[0];
    tries = found[2];
  } else {
    drawn = sampler.drawn({call, drawn_by(call, "random_uniform", {{"shape", Shape{count}}})}).value();
  }
  // How often a class is expected among them: of those that are there once at most, whether it is.
  const auto expected = [&](ir::Value* numbers) {
    const Term p = sampler.chance({call, numbers});
    if (!is_unique) return p * static_cast<double>(count);
    return -((Term(call, tries).cast(DType::kF32) * (-p).op("log1p")).op("expm1"));
  };
  call.set_result(0, drawn);
  if (call.has_result(1)) call.set_result(1, expected(call.cast(call.operand(0), DType::kI32)).value());
  if (call.has_result(2)) call.set_result(2, expected(drawn).value());
  call.has_operand(0);
}

struct RandomTensorflowImporters {
  RandomTensorflowImporters() {
    struct Family {
      const char *uniform, *normal, *truncated, *integers;
      Draw draw;
      int low;
    };
    for (const Family& f :
         {Family{"RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", drawn_by, 1},
          Family{"StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal",
                 "StatelessRandomUniformInt", drawn_statelessly, 2},
          Family{"StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2",
                 "StatelessRandomUniformIntV2", drawn_by_key, 4}}) {
      const Draw draw = f.draw;
      register_tensorflow_importer(f.uniform,
                                   [draw](NodeImportCall& c) { import_floats(c, "random_uniform", draw); });
      register_tensorflow_importer(f.normal,
                                   [draw](NodeImportCall& c) { import_floats(c, "random_normal", draw); });
      register_tensorflow_importer(f.truncated,
                                   [draw](NodeImportCall& c) { import_truncated_normal(c, draw); });
      register_tensorflow_importer(f.integers,
                                   [draw, low = f.low](NodeImportCall& c) { import_integers(c, draw, low); });
    }
    register_tensorflow_importer("StatelessRandomGetKeyCounter", import_key);
    register_tensorflow_importer("StatelessRandomGetKeyCounterAlg", import_key);
    register_tensorflow_importer("StatelessRandomGetAlg", import_algorithm);
    register_tensorflow_importer("Dropout", import_dropout, kIpu);
    register_tensorflow_importer("UniformCandidateSampler",
                                 [](NodeImportCall& call) { import_candidates(call, false); });
    register_tensorflow_importer("LogUniformCandidateSampler",
                                 [](NodeImportCall& call) { import_candidates(call, true); });
    register_tensorflow_importer("RandomShuffle", import_shuffle);
    register_tensorflow_importer("Multinomial", import_multinomial);
  }
};
const RandomTensorflowImporters random_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
