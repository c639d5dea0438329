// Dropout and its relatives. The mask is never stored: the gradient draws it again from the same seed and
// stream (docs/random.md has the measurement). In evaluation, and with p = 0, all of them are the identity.
#include <fmt/core.h>

#include <cmath>

#include "ops/random/random_support.h"

namespace ipu::ops {
namespace {

bool drops(AtenImportCall& call) {
  const bool training = call.has("train") && call.boolean("train");
  return training && call.real("p") != 0.0;
}

ir::Value* dropped(AtenImportCall& call, ir::Value* x, double p) {
  return drawn(call, "dropout", {{"p", p}}, x);
}

// [N, C, 1, ...]: whole channels are dropped together.
Shape channel_shape(AtenImportCall& call, const Shape& x) {
  if (x.size() < 2) call.unsupported("an input with fewer than two dimensions");
  Shape shape(x.size(), 1);
  shape[0] = x[0];
  shape[1] = x[1];
  return shape;
}

// 1 / (1 - p) where kept, else 0.
ir::Value* channel_factor(AtenImportCall& call, const ir::Value* x) {
  const ir::Type type{x->type().dtype, channel_shape(call, x->type().shape)};
  return dropped(call, call.builder().splat(type, 1.0), call.real("p"));
}

void import_dropout(AtenImportCall& call) {
  ir::Value* x = call.tensor("input");
  call.set_result(0, drops(call) ? dropped(call, x, call.real("p")) : x);
}

// Also returns which elements were kept.
void import_native_dropout(AtenImportCall& call) {
  ir::Value* x = call.tensor("input");
  const bool training = !call.has("train") || call.boolean("train");
  const double p = call.real("p");
  if (!training || p == 0.0) {
    call.set_result(0, x);
    call.set_result(1, call.builder().splat(call.result_type(1), 1.0));
    return;
  }
  ir::Value* factor = dropped(call, call.builder().splat(x->type(), 1.0), p);
  call.set_result(0, call.op("mul", {x, factor}));
  call.set_result(1, call.op("not_equal", {factor, call.builder().scalar(x->type().dtype, 0.0)}));
}

void import_feature_dropout(AtenImportCall& call) {
  ir::Value* x = call.tensor("input");
  call.set_result(0, drops(call) ? call.op("mul", {x, channel_factor(call, x)}) : x);
}

// Keeps mean and variance of what SELU gives: dropped elements take its lower limit, then all are scaled and
// moved. As in torch: x * (kept * a) + ((kept - 1) * (alpha * a) + alpha * a * p).
void alpha_dropout(AtenImportCall& call, bool by_channel) {
  constexpr double kAlpha = 1.7580993408473766;  // -lower limit of SELU
  ir::Value* x = call.tensor("input");
  if (!drops(call)) return call.set_result(0, x);
  const double p = call.real("p");
  const DType dtype = x->type().dtype;
  if (p == 1.0) return call.set_result(0, call.op("mul", {x, call.builder().scalar(dtype, 0.0)}));
  const double a = 1.0 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const Shape shape = by_channel ? channel_shape(call, x->type().shape) : x->type().shape;
  auto number = [&](double value) { return call.builder().scalar(dtype, value); };
  ir::Value* kept = call.cast(
      call.op("less", {uniform(call, shape, DType::kF32), call.builder().scalar(DType::kF32, 1 - p)}), dtype);
  ir::Value* moved = call.op("mul", {call.op("sub", {kept, number(1.0)}), number(kAlpha * a)});
  moved = call.op("add", {moved, number(kAlpha * a * p)});
  ir::Value* scaled = call.op("mul", {x, call.op("mul", {kept, number(a)})});
  call.set_result(0, call.op("add", {scaled, moved}));
}

const OpRegistration dropout =
    define_op("dropout", "random")
        .doc("x / (1 - p) where kept, x * 0 elsewhere; each element is dropped with probability p.")
        .operand("x", kAnyFloat)
        .operand("seed", bit(DType::kU32))
        .attribute("p")
        .attribute("stream_id", int64_t{0})
        .result("y")
        .traits(kRandom | kMayReuseFirstOperand)
        .infer([](const InferContext& c) {
          require_seed(c, 1);
          const double p = c.attributes.real("p");
          if (!(p >= 0.0 && p <= 1.0)) attribute_error(fmt::format("p must be in [0, 1], not {:f}", p));
          return std::vector<ir::Type>{c.operand(0)};
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("dropout", {g.upstream(), g.operand(1)}, g.forward().attributes));
        })
        .reference([](ReferenceCall& call) {
          const ReferenceTensor& x = call.operand(0);
          ReferenceTensor& y = call.result();
          if (x.values.empty()) return;
          const double p = call.attributes.real("p");
          std::vector<uint32_t> bits(x.values.size());
          kernels::random_fill().bits(stream_of(call, 1), 0, static_cast<int64_t>(bits.size()), bits.data());
          for (size_t i = 0; i < bits.size(); ++i)
            y.values[i] = x.values[i] * (bits[i] <= kernels::last_kept(p) ? kernels::keep_scale(p) : 0.0f);
        })
        .work(random_work(target::Distribution::kDropout))
        .from_aten({"dropout"}, import_dropout)
        .from_aten({"native_dropout"}, import_native_dropout)
        .from_aten({"feature_dropout"}, import_feature_dropout)
        .from_aten({"alpha_dropout"}, [](AtenImportCall& call) { alpha_dropout(call, false); })
        .from_aten({"feature_alpha_dropout"}, [](AtenImportCall& call) { alpha_dropout(call, true); })
        .samples(
            {{{ir::Type{DType::kF32, {3, 5}}, ir::Type{DType::kU32, {2}}},
              {{"p", 0.5}},
              -1,
              1,
              {{1, {0, 1e9}}}},
             {{ir::Type{DType::kF32, {1029}}, ir::Type{DType::kU32, {2}}},
              {{"p", 0.1}, {"stream_id", int64_t{3}}},
              -1,
              1,
              {{1, {0, 1e9}}}},
             {{ir::Type{DType::kF32, {7}}, ir::Type{DType::kU32, {2}}}, {{"p", 1.0}}, -1, 1, {{1, {0, 1e9}}}},
             {{ir::Type{DType::kF16, {2100}}, ir::Type{DType::kU32, {2}}},
              {{"p", 0.25}},
              -1,
              1,
              {{1, {0, 1e9}}}}});

}  // namespace
}  // namespace ipu::ops
