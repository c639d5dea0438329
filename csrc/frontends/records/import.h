// From a model of node records to a forward graph. The one table of what operators become is the registry of
// importers (ops/definition/importers.h).
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "frontends/common/step_builder.h"
#include "frontends/records/records.h"
#include "ir/module.h"

namespace ipu::frontends::records {

struct Imported {
  std::unique_ptr<ir::Module> module;
  ForwardGraph
      forward;  // graph @forward of the module; host inputs, then variables; host outputs, then states
  ir::Value* loss = nullptr;  // what is trained on; nullptr: no node gives what the caller named
  // By the model's names: values of the forward graph, what those are that do not hang on inputs and variables, and types
  // of results that nobody reads, such as transposes that products read through.
  std::unordered_map<std::string, ir::Value*> values;
  std::unordered_map<std::string, ConstantPtr> constants;
  std::unordered_map<std::string, ir::Type> gone;
};

// Error(kUnsupportedOps) with all operators that cannot be imported; Error(kTypeMismatch) for records that do
// not fit together: unknown names, wrong numbers of operands, nodes out of order, cycles, types.
// `loss` names the result of a node that is trained on; "": inference, where statistics are not collected and
// nothing is dropped. What neither it nor an output reads is left out.
// `replicas`: copies of the program, which collectives meet.
Imported import_model(const ModelRecord& model, const std::string& loss = "", int64_t replicas = 1);

}  // namespace ipu::frontends::records
