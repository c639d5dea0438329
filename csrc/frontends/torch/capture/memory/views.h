// View algebra: what a view shows of the value of its parent, and what the parent holds once the view has been
// written. The way there is the importer of the view operator; the way back inverts the shape operators it
// built. Knows values and steps, not which memory they belong to: generations are the caller's (memory.h).
#pragma once

#include <memory>

#include "frontends/torch/capture/memory/slot.h"
#include "ir/builder.h"

namespace ipu::frontends::torch_frontend {

class Views {
 public:
  explicit Views(ir::Builder& builder) : builder_(builder) {}

  // --- steps
  // One call of view operator `info`; the caller adds the types of its results.
  static std::shared_ptr<ViewStep> step_of(const OpInfo& info, at::ArrayRef<c10::IValue> arguments);
  // The same elements in order, of another shape.
  static std::shared_ptr<ViewStep> reshaping(const ir::Type& type);
  // The first elements of a vector.
  static std::shared_ptr<ViewStep> beginning(const ir::Type& type);
  // The same as a value that nothing else stands for. `detached`: gradients go no further.
  static std::shared_ptr<ViewStep> own_value(const ir::Type& type, bool detached);
  // What CPU tensor `t` shows of the memory it lies in.
  static std::shared_ptr<ViewStep> window(const at::Tensor& t);

  // --- values
  // Makes the values of `step` from `parent`, what its parent holds at `generation`. Error(kUnsupportedOps)
  // when the IPU cannot see memory so.
  void look(ViewStep& step, ir::Value* parent, uint64_t generation);
  // What the parent holds once result `result` of `step` has become `value`; `step` has looked at `parent`.
  // Error(kCapture) when the view cannot be written.
  ir::Value* write_back(const ViewStep& step, size_t result, ir::Value* parent, ir::Value* value);

 private:
  ir::Builder& builder_;
};

}  // namespace ipu::frontends::torch_frontend
