// What the values of one graph hold while it runs; private to the interpreter. A value has memory of its own,
// or is a view: a list of elements of the memories of others. Which elements a view has follows from running
// its op on element numbers, so it does not depend on what its view rule says about strides and writing.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ops/interpreter/interpreter.h"

namespace ipu::ops {

using TensorPtr = std::shared_ptr<const ReferenceTensor>;
using ReplicaValues = std::vector<TensorPtr>;  // by replica; nullptr where it takes no part
using ReplicaList = std::vector<int64_t>;      // those that take part, ascending

class Frame {
 public:
  ReplicaValues read(const ir::Value* value) const;
  void define(const ir::Value* value, ReplicaValues contents) { memories_[value] = std::move(contents); }
  // New contents on the replicas listed. `op` is who writes, for errors.
  void write(const ir::Op& op, const ir::Value* value, const ReplicaValues& contents,
             const ReplicaList& replicas);
  // Result 0 of `op` becomes a view of its operands, as its view rule says; or operand `operand` itself.
  void define_view(const ir::Op& op);
  void define_same(const ir::Value* result, const ir::Value* operand);

 private:
  struct View {
    std::vector<const ir::Value*> memories;
    // Numbers of elements, counted through the memories one after the other; empty with `is_whole`.
    std::vector<int64_t> elements;
    bool is_whole = false;
  };
  View view_of(const ir::Value* value) const;

  std::unordered_map<const ir::Value*, ReplicaValues> memories_;
  std::unordered_map<const ir::Value*, View> views_;
};

}  // namespace ipu::ops
