// Importers of ai.graphcore's losses.
#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

std::vector<int64_t> all_dims(const ir::Value* x) {
  std::vector<int64_t> dims(x->type().shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

ir::Value* sum_of_all(NodeImportCall& call, ir::Value* x) {
  if (x->type().shape.empty()) return x;
  return call.op("reduce_sum", {x}, {{"dims", all_dims(x)}, {"keep_dims", false}});
}

// Integers add up, and divide, as integers.
ir::Value* reduced_loss(NodeImportCall& call, ir::Value* x, const std::string& reduction) {
  if (is_floating_point(x->type().dtype)) return call.op("identity_loss", {x}, {{"reduction", reduction}});
  if (reduction == "none") return call.op("nop", {x});
  ir::Value* sum = sum_of_all(call, x);
  if (reduction == "sum") return sum;
  return call.op("div", {sum, number_like(call, sum, static_cast<double>(x->type().elements()))});
}

void import_identity_loss(NodeImportCall& call) {
  call.set_result(0, reduced_loss(call, call.operand(0), loss_reduction(call)));
}

void import_l1(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const DType dtype = x->type().dtype;
  if (x->type().shape.empty()) node_shape_error(call, "of a tensor without dimensions");
  const double factor = call.real("lambda");
  ir::Value* size = dtype == DType::kU32 ? x : call.op("abs", {x});
  if (!is_floating_point(dtype)) size = call.cast(size, DType::kF32);
  size = call.cast(call.op("mul", {size, number_like(call, size, factor)}), dtype);
  call.set_result(0, reduced_loss(call, size, loss_reduction(call)));
}

// --- negative log-likelihood

// Probabilities [N, C], labels [N] i32, and which of these are classes.
struct Classes {
  ir::Value *probabilities, *labels, *is_class;
  Shape shape;  // of the labels
};

Classes read_classes(NodeImportCall& call) {
  require_float(call, 0);
  require_integer(call, 1);
  const Shape p = call.operand(0)->type().shape, labels = call.operand(1)->type().shape;
  if (p.empty() || labels != Shape(p.begin(), p.end() - 1))
    node_shape_error(call, fmt::format("of probabilities {} and labels {}; the labels have the shape of the "
                                       "probabilities without the last dimension",
                                       to_string(p), to_string(labels)));
  if (p.back() < 1)
    node_shape_error(call, fmt::format("of probabilities {}, which have no classes", to_string(p)));
  const int64_t count = element_count(labels);
  Classes c{reshaped(call, call.operand(0), {count, p.back()}),
            reshaped(call, call.cast(call.operand(1), DType::kI32), {count}), nullptr, labels};
  ir::Value* inside =
      call.op("clamp", {c.labels}, {{"min", 0.0}, {"max", static_cast<double>(p.back() - 1)}});
  c.is_class = call.op("equal", {c.labels, inside});
  c.labels = inside;
  return c;
}

// x [N, C] at the labels, `otherwise` where these are no class: [N].
ir::Value* at_labels(NodeImportCall& call, const Classes& c, ir::Value* x, double otherwise) {
  const int64_t count = c.labels->type().shape[0];
  ir::Value* picked = call.op("gather", {x, reshaped(call, c.labels, {count, 1})}, {{"dim", int64_t{1}}});
  return call.op("where", {c.is_class, reshaped(call, picked, {count}), number_like(call, x, otherwise)});
}

// What the probabilities are the softmax of, along their last dimension: [N, C]; nullptr: something else.
ir::Value* scores_of(NodeImportCall& call, const Classes& c) {
  const ir::Value* p = call.operand(0);
  const ir::Op* op = p->producer();
  const Shape& shape = p->type().shape;
  if (op == nullptr || !op->is("softmax") || op->attributes.integer("dim", -1) != std::ssize(shape) - 1)
    return nullptr;
  return reshaped(call, op->operand(0), c.probabilities->type().shape);
}

// -log of probabilities of at least epsilon. Where these are a softmax whose own gradient nobody sees, the gradient goes to
// its scores at once: it is then that of the logarithm itself, however small the probability.
ir::Value* losses_of(NodeImportCall& call, const Classes& c) {
  const double epsilon = c.probabilities->type().dtype == DType::kF16 ? 6.104e-5 : 1e-7;
  if (flag_of(call, "inputIsLogProbability", false))
    return call.op("neg", {at_labels(call, c, c.probabilities, std::log(epsilon))});
  const auto loss = [&](ir::Value* p) {
    return call.op("neg",
                   {call.op("log", {call.op("clamp", {at_labels(call, c, p, 0.0)}, {{"min", epsilon}})})});
  };
  ir::Value* scores = call.is_training() && !call.shows_gradient(0) ? scores_of(call, c) : nullptr;
  if (scores == nullptr) return loss(c.probabilities);
  ir::Value* logarithms = call.op("log_softmax", {scores}, {{"dim", int64_t{1}}});
  ir::Value* followed = call.op("neg", {at_labels(call, c, logarithms, 0.0)});
  return call.op("straight_through", {followed, call.op("detach", {loss(c.probabilities)})});
}

void import_nll(NodeImportCall& call) {
  const Classes c = read_classes(call);
  const std::string reduction = loss_reduction(call);
  ir::Value* loss = losses_of(call, c);
  const DType dtype = loss->type().dtype;
  const bool ignores = call.has("ignoreIndex");
  ir::Value* counts = nullptr;
  if (ignores) {
    ir::Value* labels = reshaped(call, call.cast(call.operand(1), DType::kI32), c.labels->type().shape);
    counts = call.op(
        "not_equal",
        {labels, call.builder().scalar(DType::kI32, static_cast<double>(call.integer("ignoreIndex")))});
    loss = call.op("where", {counts, loss, number_like(call, loss, 0.0)});
  }
  if (reduction == "none")
    return call.set_result(0, reduced_loss(call, reshaped(call, loss, c.shape), "none"));
  if (reduction == "sum" || !ignores) return call.set_result(0, reduced_loss(call, loss, reduction));
  // The mean over the labels that count, of which there is one at least.
  ir::Value* sum = sum_of_all(call, call.cast(loss, DType::kF32));
  ir::Value* count = sum_of_all(call, call.cast(counts, DType::kF32));
  count = call.op("maximum", {count, number_like(call, count, 1.0)});
  call.set_result(0, reduced_loss(call, call.cast(call.op("div", {sum, count}), dtype), "sum"));
}

// --- connectionist temporal classification

void import_ctc(NodeImportCall& call) {
  require_float(call, 0);
  for (int i = 1; i < 4; ++i) require_integer(call, i);
  const ir::Type x_type = call.operand(0)->type();
  const Shape targets = call.operand(1)->type().shape;
  if (x_type.shape.size() != 3 || targets.size() != 2 || targets[0] != x_type.shape[1])
    node_shape_error(call,
                     fmt::format("of log-probabilities {} and targets {}; they are [T, N, C] and [N, S]",
                                 to_string(x_type.shape), to_string(targets)));
  for (int i = 2; i < 4; ++i)
    if (call.operand(i)->type().shape != Shape{targets[0]})
      node_shape_error(call, fmt::format("has lengths {} as operand {} for {} samples",
                                         to_string(call.operand(i)->type().shape), i, targets[0]));
  DType dtype = x_type.dtype;
  const std::string type = call.text("outDataType", "UNDEFINED");
  if (type == "FLOAT") {
    dtype = DType::kF32;
  } else if (type == "FLOAT16") {
    dtype = DType::kF16;
  } else if (type != "UNDEFINED") {
    node_attribute_error(call, fmt::format("has outDataType \"{}\"; it is FLOAT or FLOAT16", type));
  }
  const std::string reduction = loss_reduction(call);
  const int64_t blank = call.integer("blank", 0);
  if (blank < 0 || blank >= x_type.shape[2])
    node_attribute_error(call, fmt::format("has blank {}; there are {} classes", blank, x_type.shape[2]));
  const bool drops_infinity = flag_of(call, "zeroInfinity", false);
  std::vector<ir::Value*> operands{call.cast(call.operand(0), DType::kF32)};
  for (int i = 1; i < 4; ++i) operands.push_back(call.cast(call.operand(i), DType::kI32));
  const Attributes attributes{{"blank", blank}};
  ir::Value* losses = build_op(call.builder(), "ctc_loss", operands, attributes)->result(0);
  ir::Value* weights = call.builder().splat(losses->type(), 1.0);  // what each sample's loss counts
  if (drops_infinity) {
    ir::Value* infinity = number_like(call, losses, std::numeric_limits<double>::infinity());
    ir::Value *is_infinite = call.op("equal", {losses, infinity}), *zero = number_like(call, losses, 0.0);
    losses = call.op("where", {is_infinite, zero, losses});
    weights = call.op("where", {is_infinite, zero, weights});
  }
  if (reduction == "mean") {
    ir::Value* length =
        call.cast(call.op("maximum", {operands[3], number_like(call, operands[3], 1.0)}), DType::kF32);
    losses = call.op("div", {losses, length});
    weights = call.op("div", {weights, length});
    weights = call.op("div", {weights, number_like(call, weights, static_cast<double>(targets[0]))});
  }
  call.set_result(0, reduced_loss(call, call.cast(losses, dtype), reduction));
  if (!call.has_result(1)) return;
  operands.insert(operands.begin(), call.op("detach", {weights}));
  call.set_result(
      1, call.cast(build_op(call.builder(), "ctc_loss_gradient", operands, attributes)->result(0), dtype));
}

// The lengths and labels are unsigned in PopART.
void import_ctc_decoder(NodeImportCall& call) {
  require_float(call, 0);
  require_integer(call, 1);
  const DType dtype = call.operand(0)->type().dtype;
  const Attributes attributes{{"blank", call.integer("blank", 0)},
                              {"beam_width", call.integer("beam_width", 100)},
                              {"top_paths", call.integer("top_paths", 1)}};
  ir::Value* log_probs = call.op("detach", {call.cast(call.operand(0), DType::kF32)});
  ir::Value* best =
      call.op("ctc_beam_search", {log_probs, call.cast(call.operand(1), DType::kI32)}, attributes);
  ir::Op* search = best->producer();
  call.set_result(0, call.cast(best, dtype));
  for (int i = 1; i < 3; ++i) call.set_result(i, call.cast(search->result(i), DType::kU32));
}

struct LossGraphcoreImporters {
  LossGraphcoreImporters() {
    register_graphcore_importer(
        {"IdentityLoss", "identityloss", "x:NB", "loss:NB", "yes", "reduction:reduction=Mean",
         "The sum or mean of all elements, or the input itself."},
        import_identity_loss);
    register_graphcore_importer(
        {"L1", "l1loss", "x:F+I", "loss:F+I", "yes", "lambda:float, reduction:reduction=Mean",
         "lambda * |x|, summed or averaged."},
        import_l1);
    register_graphcore_importer(
        {"Nll", "nllloss", "probabilities:F labels:I", "loss:F", "yes",
         "reduction:reduction=Mean, ignoreIndex:int=None, inputIsLogProbability:bool=False",
         "[probabilities, labels]: -log of the probability of each label."},
        import_nll);
    register_graphcore_importer(
        {"Ctc", "ctcloss", "logProbs:F targets:I inputLengths:I targetLengths:I", "loss:F gradient!:F", "yes",
         "reduction:reduction=Mean, blank:int=0, outDataType:string(FLOAT|FLOAT16|UNDEFINED)='UNDEFINED', zeroInfinity:bool=False",
         "Loss of connectionist temporal classification of [T, N, C] log probabilities."},
        import_ctc);
    register_graphcore_importer(
        {"CtcBeamSearchDecoder", "ctcbeamsearchdecoder", "logProbs:F lengths:UINT32",
         "probabilities:F labelLengths:UINT32 labels:UINT32", "none",
         "blank:int=0, beam_width:int=100, top_paths:int=1, debug_context:debug=''",
         "Probabilities [N, P], lengths [N, P] and labels [N, P, T] of the likeliest paths."},
        import_ctc_decoder);
  }
};
const LossGraphcoreImporters loss_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
