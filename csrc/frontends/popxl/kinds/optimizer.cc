// AdamUpdater: what Adam and its relatives subtract from a weight. Inputs: weight, first moment, second moment, step
// (counted up in place), and weight decay, beta1, beta2, epsilon where they are tensors. Attributes: mode ("Adam",
// "AdamNoBias", "AdaMax", "Lamb", "LambNoBias"), wd, b1, b2, eps.
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

enum Input : uint8_t { kWeight, kFirst, kSecond, kStep, kDecay, kBeta1, kBeta2, kEpsilon };
constexpr DType kF32 = DType::kF32;

// As the weight, else as the first moment.
void updater_type(InferCall& c) { c.set_output(0, c.input(c.has(kWeight) ? kWeight : kFirst)); }

ir::Value* number(LowerCall& c, Input i, const char* attribute, double fallback) {
  return c.has(i) ? c.cast(c.reshape(c.input(i), {}), kF32)
                  : c.scalar(kF32, c.attributes().real(attribute, fallback));
}

// moment / (1 - beta^step)
ir::Value* corrected(LowerCall& c, ir::Value* moment, ir::Value* beta, ir::Value* step) {
  return c.build("div", {moment, c.build("sub", {c.scalar(kF32, 1.0), c.build("pow", {beta, step})})});
}

void adam_updater(LowerCall& c) {
  const std::string mode = c.attributes().text("mode", "Adam");
  const bool is_max = mode == "AdaMax", corrects = is_max || mode == "Adam" || mode == "Lamb";
  if (!corrects && mode != "AdamNoBias" && mode != "LambNoBias") c.refuse("mode '" + mode + "' is not known");
  ir::Value *first = c.cast(c.input(kFirst), kF32), *second = c.cast(c.input(kSecond), kF32);
  ir::Value* next = nullptr;
  if (corrects) {
    const ir::Type& type = c.type(kStep);
    next = c.build("add", {c.input(kStep), c.builder().splat(type, 1.0)});
    ir::Value* step = c.cast(c.reshape(next, {}), kF32);
    first = corrected(c, first, number(c, kBeta1, "b1", 0.9), step);
    if (!is_max) second = corrected(c, second, number(c, kBeta2, "b2", 0.999), step);
  }
  ir::Value* root = is_max ? second : c.build("sqrt", {second});
  ir::Value* x = c.build("div", {first, c.build("add", {root, number(c, kEpsilon, "eps", 1e-7)})});
  if (c.has(kDecay) || c.attributes().real("wd", 0.0) != 0.0)
    x = c.build("add", {x, c.build("mul", {number(c, kDecay, "wd", 0.0), c.cast(c.input(kWeight), kF32)})});
  if (c.has(kStep) && next != nullptr) c.overwrite(kStep, next);
  c.set_output(0, c.cast(x, c.type(c.has(kWeight) ? kWeight : kFirst).dtype));
}

const KindRegistration optimizer_kind = define_kind("AdamUpdater")
                                            .graphcore()
                                            .modifies({kStep})
                                            .optimizer()
                                            .infer(updater_type)
                                            .lower(adam_updater);

const CreatorRegistration optimizer_creators = {{
    {"AdamUpdaterOp", "mode_>mode:name wd:optimizer b1:optimizer b2:optimizer eps:optimizer settings"},
}};

}  // namespace
}  // namespace ipu::popxl
