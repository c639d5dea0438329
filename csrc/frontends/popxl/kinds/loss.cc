// The losses by class. Attributes: ignoreIndex (absent: all labels count), reduction ("mean", "sum", "none"), and of
// Nll inputIsLogProbability.
#include <limits>

#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

// Stands for ignoreIndex when it is not given: no class has this number.
constexpr int64_t kNoLabel = std::numeric_limits<int32_t>::min();

// Probabilities [N, C] and labels [N] in i32.
struct Classes {
  ir::Value *probabilities, *labels;
  int64_t count;
};
Classes classes_of(LowerCall& c, bool float_labels) {
  const Shape probabilities = c.shape(0), labels = c.shape(1);
  if (probabilities.empty() || labels != Shape(probabilities.begin(), probabilities.end() - 1))
    c.refuse("the labels must have the shape of the probabilities without the last dimension");
  if (!float_labels && !is_integer(c.type(1).dtype)) c.refuse("the labels must be integers");
  const int64_t count = element_count(labels);
  return {c.reshape(c.input(0), {count, probabilities.back()}),
          c.reshape(c.cast(c.input(1), DType::kI32), {count}), count};
}

// log of probabilities that are at least epsilon.
ir::Value* logarithm(LowerCall& c, ir::Value* probabilities) {
  const double epsilon = probabilities->type().dtype == DType::kF16 ? 6.104e-5 : 1e-7;
  return c.build("log", {c.build("maximum", {probabilities, c.scalar_like(probabilities, epsilon)})});
}

// How many labels count, at least one, as f32.
ir::Value* counted(LowerCall& c, const Classes& classes) {
  if (!c.attributes().has("ignoreIndex"))
    return c.scalar(DType::kF32, static_cast<double>(std::max<int64_t>(classes.count, 1)));
  ir::Value* ignored = c.scalar(DType::kI32, static_cast<double>(c.attributes().integer("ignoreIndex")));
  ir::Value* counts = c.cast(c.build("not_equal", {classes.labels, ignored}), DType::kF32);
  return c.build("maximum", {c.reduce("reduce_sum", counts, {0}, false), c.scalar(DType::kF32, 1.0)});
}

// The loss from log-probabilities.
ir::Value* loss_of(LowerCall& c, const Classes& classes, ir::Value* log_probabilities) {
  const std::string reduction = c.attributes().text("reduction", "mean");
  const bool ignores = c.attributes().has("ignoreIndex");
  const bool divides = reduction == "mean" && ignores;  // the op gives NaN where no label counts
  ir::Value* loss = c.build("nll_loss", {log_probabilities, classes.labels},
                            {{"ignore_index", ignores ? c.attributes().integer("ignoreIndex") : kNoLabel},
                             {"reduction", divides ? std::string("none") : reduction}});
  if (reduction == "none") return c.reshape(loss, c.shape(1));
  if (!divides) return loss;
  ir::Value* sum = c.reduce("reduce_sum", c.cast(loss, DType::kF32), {0}, false);
  return c.cast(c.build("div", {sum, counted(c, classes)}), loss->type().dtype);
}

const KindRegistration nll = define_kind("Nll").graphcore().gradient({in(0), in(1)}).lower([](LowerCall& c) {
  const Classes classes = classes_of(c, false);
  ir::Value* x = classes.probabilities;
  if (!flag(c.attributes(), "inputIsLogProbability", false)) x = logarithm(c, x);
  c.set_output(0, loss_of(c, classes, x));
});

// Outputs: the loss, and the gradient for what the probabilities are the softmax of: (probabilities - one hot) times
// input 2, divided by the number of labels for a mean.
const KindRegistration nll_with_softmax_grad =
    define_kind("NlllWithSoftmaxGradDirect").graphcore().lower([](LowerCall& c) {
      const Classes classes = classes_of(c, true);
      c.set_output(0, loss_of(c, classes, logarithm(c, classes.probabilities)));
      const int64_t number = classes.probabilities->type().shape[1];
      ir::Value* labels = c.reshape(classes.labels, {classes.count, 1});
      ir::Value* index = c.build("iota", {}, {{"shape", Shape{1, number}}, {"dim", int64_t{1}}});
      ir::Value* one_hot = c.cast(c.build("equal", {labels, index}), DType::kF32);
      ir::Value* dx = c.build("sub", {c.cast(classes.probabilities, DType::kF32), one_hot});
      ir::Value* scale = c.cast(c.input(2), DType::kF32);
      if (scale->type().elements() == 1) {
        scale = c.reshape(scale, {});
      } else if (c.shape(2) == c.shape(1) && c.attributes().text("reduction", "mean") == "none") {
        scale = c.reshape(scale, {classes.count, 1});
      } else {
        c.refuse(
            "the gradient of the loss must have one element, or that of each label for reduction=\"none\"");
      }
      if (c.attributes().text("reduction", "mean") == "mean")
        scale = c.build("div", {scale, counted(c, classes)});
      dx = c.build("mul", {dx, scale});
      if (c.attributes().has("ignoreIndex")) {
        ir::Value* ignored =
            c.scalar(DType::kI32, static_cast<double>(c.attributes().integer("ignoreIndex")));
        dx = c.build("where", {c.build("equal", {labels, ignored}), c.scalar(DType::kF32, 0.0), dx});
      }
      c.set_output(1, c.reshape(c.cast(dx, c.type(0).dtype), c.shape(0)));
    });

const CreatorRegistration loss_creators = {{
    {"NllOp", "opid ignoreIndex:int reduction:reduction inputIsLogProbability:bool settings"},
    {"NlllWithSoftmaxGradDirectOp", "ignoreIndex:int reduction:reduction settings"},
}};
const FunctionRegistration loss_functions = {{
    {"Nll",
     "nll_loss(probs, labels, ignore_index:label>ignoreIndex=None, reduction:reduction='mean', "
     "log_prob:bool>inputIsLogProbability=False) -> loss",
     R"(Negative log-likelihood: -log max(p, epsilon) of the probability p of each label.

Args:
    probs: (..., classes), floating: probabilities; with `log_prob` their logarithms.
    labels: (...), integers.
    ignore_index: a label that adds nothing and is not counted in the mean.
    reduction: "mean" or "sum", shape (); "none", the shape of `labels`.
    log_prob: `probs` are logarithms.

Returns:
    The loss, in the dtype of `probs`. Epsilon is 1e-7, of float16 6.104e-5.

Raises:
    ValueError: another reduction.
    popart.popart_exception: shapes do not fit, or `labels` are no integers.)",
     "loss = ops.nll_loss(ops.softmax(logits, -1), labels)"},
}};

}  // namespace
}  // namespace ipu::popxl
