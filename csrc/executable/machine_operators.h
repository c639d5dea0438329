// The machine form of a module that nobody compiled, and what it says of the operators of the model: for listings,
// which tell the user's operators by their first results (ir/node_marks.h).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "target/system.h"

namespace ipu::executable {

// What MachineForm::module() of the compiled module would be.
std::unique_ptr<ir::Module> machine_form_of(std::unique_ptr<ir::Module> module, const target::System& system);

// A value that goes to another IPU, or that a later stage of a pipeline reads.
struct Crossing {
  std::string node;  // that gives it; the stream of an input, the name of a variable; "" for none
  bool is_backward = false;
  int from_ipu = 0, to_ipu = 0;
  int from_stage = -1, to_stage = -1;  // -1: between no stages
  int64_t cycles = 0;                  // that its stages are apart
  bool is_repeated_from = false;       // what is made again reads it
};

struct MachineOperators {
  std::set<std::string> there;     // with ops in the forward pass
  std::set<std::string> marked;    // of these, whose results are not kept for the backward pass
  std::set<std::string> repeated;  // of these, what the backward pass needs and makes again
  std::map<std::pair<std::string, bool>, int> stages;  // where their ops run, forward and backward (true)
  std::vector<Crossing> crossings;
};
MachineOperators machine_operators(const ir::Module& machine);

// What the gradient ops of each operator read of the forward pass: its operands and results by their names, of a first result
// the operator's. Of a module that no pass has seen, whose gradients are graphs; an operator without gradient ops is not in
// it.
std::map<std::string, std::set<std::string>> gradient_reads(const ir::Module& module);

}  // namespace ipu::executable
