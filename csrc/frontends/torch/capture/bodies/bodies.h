// Bodies of poptorch.for_loop and poptorch.cond. A body is captured into the forward graph like everything
// else, with stand-ins for its arguments. When it ends, what its results and side effects need is copied to a
// graph of its own, which a `loop` or an `if` runs; values of the forward graph that it reads become operands
// of that. What was captured stays where it is until the end: memory and constants of the capture may hold
// values of it that do not depend on the stand-ins.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontends/torch/capture/operators/op_info.h"
#include "ir/builder.h"

namespace ipu::frontends::torch_frontend {

class Capture;

class Bodies {
 public:
  explicit Bodies(Capture& capture) : capture_(capture) {}

  // Stand-ins for `arguments`; what is captured until close() or abandon() is a body of `function`
  // ("for_loop", "cond"). Bodies nest. Error(kAnnotation): a MultiConv is open.
  std::vector<at::Tensor> open(const std::string& function, const std::vector<at::Tensor>& arguments);
  // The innermost open body is complete and gives `results`; loop() or branch() takes it.
  void close(const std::vector<at::Tensor>& results);
  // The innermost open body, or the last closed one that nobody took, is forgotten: what called it failed.
  void abandon();

  // `trip` rounds of the closed body: results of one round are the arguments of the next. Error(kTypeMismatch)
  // when their number, shapes or element types differ.
  std::vector<at::Tensor> loop(int64_t trip);
  // The first of two closed bodies where `condition` (bool, one element) is true, else the second, whose
  // results take the shapes of the first's. Error(kTypeMismatch) when that cannot be.
  std::vector<at::Tensor> branch(const at::Tensor& condition);

  // Whether `op` was captured in a body that has ended. Such an op may hold values that others read, and is no
  // part of the program otherwise.
  bool is_left_behind(const ir::Op& op) const { return left_behind_.contains(op.id()); }
  void leave_behind(const ir::Op& op) { left_behind_.insert(op.id()); }
  // At the end of the capture: what was left behind goes, unless a value of it is read.
  void sweep();

 private:
  struct Body {
    const OpInfo* function = nullptr;
    ir::Op* stand_in = nullptr;  // its results stand for the arguments
    std::vector<at::Tensor> arguments, results;
    std::vector<ir::Value*> operands;      // values of the arguments
    std::vector<ir::Value*> outputs;       // values of the results
    std::vector<const ir::Op*> ops;        // to be copied, in order
    std::vector<const ir::Op*> constants;  // from outside, copied in front of them
    std::vector<ir::Value*> read;          // other values from outside
    bool is_closed = false;
  };
  using Copies = std::unordered_map<const ir::Value*, ir::Value*>;

  void collect(Body& body);
  Body take();
  void copy_into(ir::Graph& graph, const Body& body, Copies& copies) const;
  std::vector<at::Tensor> tensors_of(const std::vector<ir::Value*>& values, const std::vector<Body>& bodies);

  Capture& capture_;
  std::vector<Body> bodies_;  // open ones, and behind each those that wait to be taken
  std::unordered_set<int64_t> left_behind_;
};

}  // namespace ipu::frontends::torch_frontend
