// A graph of the IR that is empty between inferences, and what inferences gave: programs repeat their ops.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "frontends/popxl/program.h"
#include "ir/module.h"

namespace ipu::popxl {

// All that decides about the types which a row's `lower` gives, and these.
class Inferred {
 public:
  Inferred() = default;
  Inferred(const Op& op, std::map<int, TensorInfo> outputs);
  bool is_of(const Op& op) const;
  const std::map<int, TensorInfo>& outputs() const { return outputs_; }
  // Hashes the kind and the types of the inputs alone.
  static size_t hash(const Op& op);

 private:
  struct Input {
    int number;
    TensorInfo info;
    ConstantPtr constant;
  };
  const OpKind* kind_ = nullptr;
  int64_t replicas_ = 0;
  Attributes attributes_;
  std::vector<Input> inputs_;
  std::map<int, TensorInfo> outputs_;
};

class InferenceScratch {
 public:
  InferenceScratch() : graph_(module_.add_graph("inference")) {}
  ir::Graph& graph() { return *graph_; }
  void clear();
  // By Inferred::hash, the last op of that hash: where attributes alternate, each is inferred again.
  std::unordered_map<size_t, Inferred> inferred;

 private:
  ir::Module module_;
  ir::Graph* graph_;
};

}  // namespace ipu::popxl
