// Creates ops at a place in a graph, with the settings and location of the moment.
// Result types are given by the caller or, for defined ops, by the type rule (ops/definition/build.h).
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace ipu::ir {

class Builder {
 public:
  explicit Builder(Graph* graph, Op* before = nullptr) : graph_(graph), before_(before) {}

  Graph* graph() const { return graph_; }
  Module* module() const { return graph_->module(); }
  void set_insertion_point(Op* before) { before_ = before; }  // nullptr: the end of the graph

  Settings settings;  // given to every created op
  Location location;
  OriginPtr origin;

  Op* create(std::string_view kind, std::span<Value* const> operands, Attributes attributes,
             std::span<const Type> result_types, std::string_view name_hint = "");
  Op* create(std::string_view kind, std::initializer_list<Value*> operands, Attributes attributes,
             std::initializer_list<Type> result_types, std::string_view name_hint = "");

  Value* constant(ConstantPtr data, std::string_view name_hint = "");
  Value* scalar(DType dtype, double value);      // a 0-d constant, rounded to dtype
  Value* splat(const Type& type, double value);  // a 0-d constant expanded to the shape (op "expand")
  std::vector<Value*> call(Graph* callee, std::span<Value* const> arguments);
  std::vector<Value*> loop(Graph* body, std::span<Value* const> carried, std::span<Value* const> invariant,
                           int64_t trip);
  // One stage graph, the whole body of the loop over micro-batches; schedule "grouped".
  std::vector<Value*> pipeline(Graph* stage, std::span<Value* const> carried,
                               std::span<Value* const> invariant, int64_t micro_batches);
  std::vector<Value*> branch(Value* condition, Graph* then_graph, Graph* else_graph,
                             std::span<Value* const> arguments);
  Value* read_variable(const Variable& variable);
  void assign_variable(const Variable& variable, Value* value);
  Value* host_load(const Stream& stream);
  void host_store(const Stream& stream, Value* value);
  void push(const Ring& ring, Value* value);
  Value* pop(const Ring& ring);
  Value* replica_index();

 private:
  std::vector<Value*> repeat(std::string_view kind, std::span<Value* const> carried,
                             std::span<Value* const> invariant, Attributes attributes);
  Graph* graph_;
  Op* before_;
};

ConstantPtr make_scalar(DType dtype, double value);                      // shape {}
ConstantPtr make_constant(DType dtype, Shape shape, const void* bytes);  // copies

}  // namespace ipu::ir
