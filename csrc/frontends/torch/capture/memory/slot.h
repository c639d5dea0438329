// What the tensors of device "ipu" look at. Tensors that share memory share a Base; each way to look at one is
// a Slot, and each view knows how it is made from its parent, so reads replay the chain of views and writes
// fold back through it (memory.h, views.h). Data only.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <memory>
#include <string>
#include <vector>

#include "ir/module.h"

namespace ipu::frontends::torch_frontend {

struct OpInfo;

// Number of the body (bodies/bodies.h) that this thread captures; 0: none. Never used twice.
inline int64_t& body_being_captured() {
  thread_local int64_t number = 0;
  return number;
}

// What all tensors over one memory share.
struct Base {
  bool on_host = true;      // the value is known on the host: Slot::host of each slot is a torch view of it
  uint64_t generation = 1;  // counts writes of graph values
  uint64_t versions = 0;    // and of these, those that torch's version counter sees: not through .data
  uint64_t capture = 0;     // the capture its graph value belongs to, or that it was made in on the host
  int state = -1;           // index of the state it is, in that capture
  int64_t body = body_being_captured();  // where the memory came into being
  std::string slice_line;                // of the user, where it is a slice at a run-time place
};

// How views are made from their parent: one call of a view op, shared by all its results. Tensor arguments
// other than the viewed one do not occur.
struct ViewStep {
  const OpInfo* op = nullptr;
  torch::jit::Stack arguments;  // the viewed argument is None here
  size_t viewed = 0;
  std::vector<ir::Type> types;  // of the results
  uint64_t generation = 0;      // of the base when `values` were made
  std::vector<ir::Value*> values;

  bool is_current(uint64_t of_base) const { return !values.empty() && generation == of_base; }
};

// One way to look at a Base. Shared by tensors that are the same view (`.data`, detach), so a write through
// one is seen by all.
struct Slot {
  std::shared_ptr<Base> base;
  std::shared_ptr<Slot> parent;    // nullptr: the whole base
  std::shared_ptr<ViewStep> step;  // how it is made from the parent
  size_t result = 0;               // which result of the step
  at::Tensor host;                 // CPU tensor with its elements; states keep it for reading `.item()`
  ir::Value* value = nullptr;      // graph value, up to date when generation == base->generation
  uint64_t generation = 0;

  bool is_current() const { return value != nullptr && generation == base->generation; }
};

// All of a new memory that is a value of the graph of capture `capture`; nullptr: a value that comes later.
inline std::shared_ptr<Slot> graph_slot(uint64_t capture, ir::Value* value) {
  auto slot = std::make_shared<Slot>();
  slot->base = std::make_shared<Base>();
  slot->base->on_host = false;
  slot->base->capture = capture;
  slot->value = value;
  if (value != nullptr) slot->generation = slot->base->generation;
  return slot;
}

inline std::shared_ptr<Slot> view_slot(std::shared_ptr<Slot> parent, std::shared_ptr<ViewStep> step,
                                       size_t result = 0) {
  auto slot = std::make_shared<Slot>();
  slot->base = parent->base;
  slot->parent = std::move(parent);
  slot->step = std::move(step);
  slot->result = result;
  return slot;
}

// The slot that looks at all of the memory.
inline const std::shared_ptr<Slot>& root_of(const std::shared_ptr<Slot>& slot) {
  const std::shared_ptr<Slot>* root = &slot;
  while ((*root)->parent != nullptr) root = &(*root)->parent;
  return *root;
}

}  // namespace ipu::frontends::torch_frontend
