// From a model of node records to a program: inference, or training by a loss that is a value of the model.
#pragma once

#include <memory>
#include <string>

#include "frontends/common/step_builder.h"
#include "frontends/records/records.h"
#include "ir/module.h"

namespace ipu::frontends::records {

struct ProgramOptions {
  std::string loss;  // name of the value to minimise; "": inference
  // Without loss; it is training when there is one. `optimizer.group_of` empty: all trained initialisers are in
  // group 0.
  StepOptions step;
};

// Entry point "main" that reads the model's inputs from streams of their names and writes its outputs to such.
// In inference initialisers that are marked as trained are variables too, and stay as they are. Errors of
// import_model and build_step; Error(kNoLoss) and Error(kNotDifferentiable) for a loss that cannot be trained on.
std::unique_ptr<ir::Module> build_program(const ModelRecord& model, const ProgramOptions& options);

// Error(kNoLoss), Error(kNotDifferentiable): `loss`, which the model calls `name`, is no single number that a node gives,
// or an integer though none may be.
void check_loss(const ir::Value* loss, const std::string& name, bool may_be_integer = false);

}  // namespace ipu::frontends::records
