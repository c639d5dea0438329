#include "frontends/records/program.h"

#include <fmt/core.h>

#include "autodiff/differentiate.h"
#include "frontends/records/import.h"
#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::frontends::records {

void check_loss(const ir::Value* loss, const std::string& name, bool may_be_integer) {
  if (loss == nullptr)
    throw Error(
        ErrorCode::kNoLoss,
        fmt::format("couldn't find a loss: no node of the model gives '{}'. Name the result of a node.",
                    quotation(name)));
  if (loss->type().elements() != 1 || !autodiff::carries_gradient(loss->type().dtype, may_be_integer))
    throw Error(
        ErrorCode::kNotDifferentiable,
        fmt::format("not differentiable: the loss '{}' is {}, and a gradient needs a single real number. "
                    "Reduce it in the model, for example with ReduceMean.",
                    quotation(name), to_string(loss->type())));
}

namespace {

void put_in_one_group(const ForwardGraph& forward, optimizers::Spec& spec) {
  for (const ForwardGraph::Input& input : forward.inputs)
    if (input.trainable) spec.group_of[input.name] = 0;
  if (spec.group_of.empty())
    throw Error(ErrorCode::kOptimizer,
                "nothing to train: no initialiser of the model is marked as trained. Name those to train.");
}

}  // namespace

std::unique_ptr<ir::Module> build_program(const ModelRecord& model, const ProgramOptions& options) {
  Imported imported = import_model(model, options.loss, options.step.replicas);
  StepOptions step = options.step;
  if (!options.loss.empty()) {
    step.training = true;
    check_loss(imported.loss, options.loss);
    step.loss = imported.loss;
    if (step.optimizer.group_of.empty()) put_in_one_group(imported.forward, step.optimizer);
  }
  build_step(imported.forward, step);
  return std::move(imported.module);
}

}  // namespace ipu::frontends::records
