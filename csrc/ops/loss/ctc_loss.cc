// ctc_loss and its gradient: the negative log-likelihood of each target over all ways to spread it over time
// (kernels/loss/ctc.h has the algorithm). Reduction and infinite losses are composed by the importer.
#include <fmt/core.h>

#include <limits>

#include "kernels/loss/ctc.h"
#include "ops/definition/sample_types.h"
#include "ops/definition/work.h"
#include "ops/loss/loss_support.h"

namespace ipu::ops {
namespace {

// log_probs [T, N, C], targets [N, S], input_lengths [N], target_lengths [N], from operand `first` on.
void check_ctc(const InferContext& c, int first) {
  require_rank(c, first, 3, "log_probs");
  require_rank(c, first + 1, 2, "targets");
  const int64_t samples = c.operand(first).shape[1];
  if (c.operand(first + 1).shape[0] != samples || c.operand(first + 2).shape != Shape{samples} ||
      c.operand(first + 3).shape != Shape{samples}) {
    shape_error(fmt::format("targets and lengths must be of {} samples", samples));
  }
  const int64_t blank = c.attributes.integer("blank");
  if (blank < 0 || blank >= c.operand(first).shape[2])
    attribute_error(fmt::format("blank {} is no class", blank));
}

// One sample of a reference call with doubles of its own.
struct Sample1 {
  std::vector<int32_t> target;
  kernels::CtcSample sample;

  Sample1(const ReferenceCall& call, int first, int64_t n) {
    const ReferenceTensor &x = call.operand(first), &targets = call.operand(first + 1);
    const int64_t labels = targets.type.shape[1];
    for (int64_t k = 0; k < labels; ++k)
      target.push_back(static_cast<int32_t>(targets.values[static_cast<size_t>(n * labels + k)]));
    const auto length = [&](int operand, int64_t most) {
      const auto value = static_cast<int64_t>(call.operand(operand).values[static_cast<size_t>(n)]);
      if (value < 0 || value > most)
        throw Error(
            ErrorCode::kExecution,
            fmt::format("index out of range: length {} of sample {} is not in [0, {}]", value, n, most));
      return value;
    };
    sample = {length(first + 2, x.type.shape[0]), length(first + 3, labels), call.attributes.integer("blank"),
              target.data()};
  }
};

auto reader(const ReferenceTensor& x, int64_t n) {
  const int64_t step = x.type.shape[1] * x.type.shape[2], start = n * x.type.shape[2];
  return [&x, step, start](int64_t t, int64_t label) {
    return x.values[static_cast<size_t>(t * step + start + label)];
  };
}

void ctc_reference(ReferenceCall& call) {
  for (int64_t n = 0; n < call.result().size(); ++n) {
    const Sample1 s(call, 0, n);
    std::vector<double> alpha(static_cast<size_t>(s.sample.times * s.sample.states()));
    call.result().values[static_cast<size_t>(n)] =
        kernels::ctc_forward(s.sample, alpha.data(), reader(call.operand(0), n));
  }
}

void ctc_gradient_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.operand(1);
  const int64_t samples = x.type.shape[1], classes = x.type.shape[2];
  for (int64_t n = 0; n < samples; ++n) {
    const double dy = call.operand(0).values[static_cast<size_t>(n)];
    if (dy == 0.0) continue;
    const Sample1 s(call, 1, n);
    std::vector<double> alpha(static_cast<size_t>(s.sample.times * s.sample.states())),
        beta(static_cast<size_t>(2 * s.sample.states()));
    const double loss = kernels::ctc_forward(s.sample, alpha.data(), reader(x, n));
    kernels::ctc_shares(
        s.sample, alpha.data(), loss, beta.data(), reader(x, n), [&](int64_t t, int64_t label, double share) {
          call.result().values[static_cast<size_t>((t * samples + n) * classes + label)] -= dy * share;
        });
  }
}

// A pass for each time over the states of all samples, which adds the paths that meet, `meetings` times.
target::Work times_work(const ir::Op& op, int first, int meetings) {
  const ir::Type &x = op.operand(first)->type(), &targets = op.operand(first + 1)->type();
  std::vector<std::string_view> functions;
  for (int i = 0; i < meetings; ++i) functions.insert(functions.end(), {"Max", "Sub", "Exp", "Log1p", "Add"});
  target::Work work = pass_over({x.dtype, {x.shape[1], 2 * targets.shape[1] + 1}}, std::move(functions), 3);
  work.times = x.shape[0];
  return work;
}

const std::map<int, std::pair<double, double>> kRanges{{1, {1, 3}}, {2, {4, 5}}, {3, {1, 2}}},
    kGradientRanges{{2, {1, 3}}, {3, {4, 5}}, {4, {1, 2}}};

// Sums over paths leave no digits of a half: importers widen.
constexpr DTypeSet kWide = bit(DType::kF32) | bit(DType::kF64);

const OpRegistration ctc_loss =
    define_op("ctc_loss", "loss")
        .doc(
            "Negative log-likelihood [N] of targets [N, S] under log_probs [T, N, C], over all ways to "
            "spread a target "
            "over its input_lengths [N] with blanks between; target_lengths [N].")
        .operand("log_probs", kWide)
        .operand("targets", kAnyInteger)
        .operand("input_lengths", kAnyInteger)
        .operand("target_lengths", kAnyInteger)
        .attribute("blank", int64_t{0})
        .result("loss")
        .infer([](const InferContext& c) {
          check_ctc(c, 0);
          return std::vector<ir::Type>{{c.operand(0).dtype, {c.operand(0).shape[1]}}};
        })
        .gradient([](GradientBuilder& g) {
          g.set(0,
                g.op("ctc_loss_gradient",
                     {g.upstream(), g.operand(0), g.operand(1), g.operand(2), g.operand(3)}, g.attributes()));
        })
        .reference(ctc_reference)
        .work([](const ir::Op& op) { return std::vector{times_work(op, 0, 2)}; })
        .samples({{{f32({5, 2, 4}), i32({2, 2}), i32({2}), i32({2})}, {}, -3, -0.1, kRanges}});

const OpRegistration ctc_loss_gradient =
    define_op("ctc_loss_gradient", "loss")
        .doc("Gradient of ctc_loss for log_probs: minus the share of each label at each time, times dy [N].")
        .operand("dy", kWide)
        .operand("log_probs", kWide)
        .operand("targets", kAnyInteger)
        .operand("input_lengths", kAnyInteger)
        .operand("target_lengths", kAnyInteger)
        .attribute("blank", int64_t{0})
        .result("dlog_probs")
        .infer([](const InferContext& c) {
          check_ctc(c, 1);
          return std::vector<ir::Type>{{c.operand(1).dtype, c.operand(1).shape}};
        })
        .gradient_refused("a loss can be differentiated once")
        .reference(ctc_gradient_reference)
        // Forwards, backwards, and the shares of the labels.
        .work([](const ir::Op& op) {
          return std::vector{times_work(op, 1, 2), times_work(op, 1, 3),
                             pass_over(op.result()->type(), {"Exp", "Mul"}, 2)};
        })
        .samples(
            {{{f32({2}), f32({5, 2, 4}), i32({2, 2}), i32({2}), i32({2})}, {}, -3, -0.1, kGradientRanges}});

// --- importer

ir::Value* lengths(AtenImportCall& call, std::string_view name, int64_t samples) {
  if (call.is_tensor(name)) return reshaped(call, call.cast(call.tensor(name), DType::kI32), {samples});
  std::vector<int32_t> values;
  for (const int64_t v : call.integers(name)) values.push_back(static_cast<int32_t>(v));
  if (std::ssize(values) != samples) call.unsupported("lengths of another number of samples");
  return call.builder().constant(ir::make_constant(DType::kI32, {samples}, values.data()));
}

// torch takes log_probs for the result of a log-softmax: its gradient holds the probabilities themselves. A
// term that is 0 brings them in.
ir::Value* probability_term(AtenImportCall& call, ir::Value* x, ir::Value* times) {
  const Shape shape = x->type().shape;
  ir::Value* probability = call.op("exp", {x});
  ir::Value* nothing = call.op("sub", {probability, call.op("detach", {probability})});
  ir::Value* time =
      call.op("iota", {}, {{"shape", Shape{shape[0], 1, 1}}, {"dim", int64_t{0}}, {"dtype", DType::kI32}});
  ir::Value* counts = call.op("less", {time, reshaped(call, times, {1, shape[1], 1})});
  ir::Value* zero = call.builder().scalar(x->type().dtype, 0.0);
  return call.op("reduce_sum", {call.op("where", {counts, nothing, zero})},
                 {{"dims", std::vector<int64_t>{0, 2}}, {"keep_dims", false}});
}

void import_ctc(AtenImportCall& call) {
  const DType dtype = call.result_type(0).dtype;
  ir::Value *x = call.cast(call.tensor("log_probs"), DType::kF32), *targets = call.tensor("targets");
  if (x->type().shape.size() != 3) call.unsupported("log_probs without a batch; [T, N, C] is supported");
  if (targets->type().shape.size() != 2)
    call.unsupported("targets one behind the other; [N, S] is supported");
  const int64_t samples = x->type().shape[1];
  ir::Value *times = lengths(call, "input_lengths", samples),
            *labels = lengths(call, "target_lengths", samples);
  ir::Value* losses = call.op("ctc_loss", {x, call.cast(targets, DType::kI32), times, labels},
                              {{"blank", call.has("blank") ? call.integer("blank") : 0}});
  losses = call.op("add", {losses, probability_term(call, x, times)});
  ir::Value* zero = call.builder().scalar(DType::kF32, 0.0);
  if (call.has("zero_infinity") && call.boolean("zero_infinity")) {
    ir::Value* infinity = call.builder().scalar(DType::kF32, std::numeric_limits<double>::infinity());
    losses = call.op("where", {call.op("equal", {losses, infinity}), zero, losses});
  }
  if (reduction_word(call) == "mean") {
    ir::Value* length = call.op("maximum", {labels, call.builder().scalar(DType::kI32, 1.0)});
    losses = call.op("div", {losses, call.cast(length, DType::kF32)});
  }
  set_reduced_loss(call, call.cast(losses, dtype));
}

struct CtcLossRegistrations {
  CtcLossRegistrations() {
    for (const char* name : {"ctc_loss.Tensor", "ctc_loss.IntList"}) register_aten_importer(name, import_ctc);
  }
};
const CtcLossRegistrations ctc_loss_registrations;

}  // namespace
}  // namespace ipu::ops
