// How the operands and results of a region meet the inputs and outputs of the graphs it runs. Regions are the
// rows of structure.h with bodies: call, multi_exchange, loop, if, pipeline. All their interfaces are one:
//
//   operands   [condition]  carried...   others...
//   inputs     [index]      carried...   others...            [flows of earlier stages...]
//   outputs    [go on]      carried...  or results...         [flows of this stage...]
//   results                 carried...  or results...
//
// condition: `if` only; index and carried: loop and pipeline; go on: loop with {while}; flows: pipeline of
// stage graphs. So operand ↔ input and result ↔ output are shifts, equal for all bodies. A number that has no
// counterpart maps to -1. Carried value k is operand k, result k, input(k), output(k).
#pragma once

#include <algorithm>
#include <vector>

#include "ir/structure.h"

namespace ipu::ir {

// A view of an op: made in O(1), valid while operands, results and attributes of the op stay as they are.
class Region {
 public:
  explicit Region(const Op& op);  // IPU_CHECK: is_region

  const Op& op() const { return op_; }
  std::vector<Graph*> bodies() const { return called_graphs(op_); }  // looks them up
  Graph& body() const;                                               // the first
  bool repeats() const { return op_.structure()->repeats; }

  // Operands and inputs.
  int condition_operand() const { return op_.structure()->has_condition ? 0 : -1; }
  int index_input() const { return repeats() ? 0 : -1; }
  int first_operand() const { return op_.structure()->has_condition ? 1 : 0; }  // of those that are handed on
  int first_input() const { return repeats() ? 1 : 0; }  // the one that takes first_operand()
  int input(int operand) const { return std::max(operand - first_operand() + first_input(), -1); }
  int operand(int input) const {
    const int number = input - first_input() + first_operand();
    return input >= first_input() && number < op_.operand_count() ? number : -1;
  }
  // One value for each operand, as the bodies take it; `index` for the index of loops and pipelines. Flows are
  // the caller's affair.
  std::vector<Value*> arguments(Value* index = nullptr) const;

  // Results and outputs.
  int condition_output() const { return first_output_ == 1 ? 0 : -1; }  // says whether to go on
  int output(int result) const { return result + first_output_; }
  int result(int output) const {
    const int number = output - first_output_;
    return number >= 0 && number < op_.result_count() ? number : -1;
  }

  // Values handed from one iteration to the next.
  int carried() const { return carried_; }
  bool is_carried(int operand) const { return operand >= 0 && operand < carried_; }
  bool is_carried_input(int input) const {
    return input >= first_input() && input < first_input() + carried_;
  }
  // Handed on, and the same in every iteration and body.
  bool is_invariant(int operand) const { return operand >= first_operand() && operand >= carried_; }

  // Stages of a pipeline: input first_flow_input() + i takes flow i of all earlier stages, in order, and
  // outputs from first_flow_output() on are the flows of a stage.
  int first_flow_input() const { return op_.operand_count() - first_operand() + first_input(); }
  int first_flow_output() const { return carried_; }

 private:
  const Op& op_;
  int carried_ = 0, first_output_ = 0;
};

// Body number `i` of a region is `graph` from now on.
void set_body(Op& op, int i, const Graph& graph);

// The result of a call for output `i` of its callee; results it lacks up to there are appended.
Value* result_for_output(Op& call, const Graph& callee, int i);
// Gives every call the results it lacks, so that the module may be functional; says whether there were any.
// One sweep over the module.
bool complete_calls(Module& module);

}  // namespace ipu::ir
