// What an importer of a node of a model sees (ONNX, TensorFlow): operands by position, attributes by name,
// the version of its domain. Types of results come from the ops' own rules. frontends/records implements it.
//
// What an importer does not ask for is refused: operands, attributes and results that the node has and the
// importer never looked at are errors of the model, not silently dropped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/definition/import_call.h"

namespace ipu::ops {

// A graph that a node holds ("then_branch", "body") as a graph of the IR. Its inputs are those that it declares,
// then one for each of `captured`.
struct ImportedBody {
  ir::Graph* graph = nullptr;
  std::vector<ir::Value*> captured;  // what it reads of the graphs around it
  std::vector<std::string> names;    // of `captured`; "": of the seed
  std::vector<int>
      written;    // those of `captured` that the body assigns; their new values are its last outputs
  int seed = -1;  // which of `captured` random numbers come from; -1: it draws none
  std::vector<ConstantPtr> constants;  // by output: what the model says it is; nullptr: known when it runs
};

class NodeImportCall : public ImportCall {
 public:
  virtual int version() const = 0;
  // The model comes from PopART, whose rules are not everywhere those of the text of ONNX.
  virtual bool is_popart() const = 0;
  virtual bool is_training() const = 0;  // the program trains: statistics are collected, values dropped

  virtual int64_t replicas() const = 0;  // copies of the program that run side by side

  virtual int operand_count() = 0;  // trailing absent ones do not count; all count as asked for
  virtual bool has_operand(int i) = 0;
  virtual ir::Value* operand(int i) = 0;  // Error(kTypeMismatch) when it is absent
  // What the model itself says operand i is, in the model's own type (i64 stays i64); nullptr: known only when
  // the program runs.
  virtual ConstantPtr constant(int i) = 0;
  // Whether operand i changes between runs all the same: the host writes it, or it follows from such.
  virtual bool is_variable(int i) = 0;

  virtual std::string operand_name(int i) = 0;  // what the model calls it
  virtual bool is_initialiser(int i) = 0;       // whether operand i is one, and may be written
  virtual bool shows_gradient(int i) = 0;       // whether the host is to see the gradient of operand i

  virtual ConstantPtr tensor(std::string_view attribute) = 0;
  virtual std::vector<double> reals(std::string_view attribute) = 0;
  virtual std::vector<std::string> texts(std::string_view attribute) = 0;
  // An attribute that has no meaning here; it counts as asked for.
  void ignore(std::string_view attribute) { has(attribute); }

  virtual bool has_result(int i) = 0;  // whether the node names it
  // Result i as a constant of the model, in a type of the model: i64 stays i64 while importers read it.
  virtual void set_constant(int i, ConstantPtr value) = 0;
  // The new value of the state that operand i is, in a program that trains; Error(kUnsupportedOps) when it is
  // no initialiser.
  virtual void write(int operand, ir::Value* value) = 0;
  // The same in any program. Where nodes run in the order they stand in, the next ones read this value.
  virtual void assign(int operand, ir::Value* value) = 0;

  virtual int body_inputs(
      std::string_view name) = 0;  // how many the graph of that name declares; 0: no graph
  // The graph of that name. Error(kTypeMismatch) when the node has none, when it declares another number of
  // inputs than `inputs` gives types for, or reads what is not there. Each call imports it once more.
  virtual ImportedBody body(std::string_view name, const std::vector<ir::Type>& inputs) = 0;
  // The new value of what a body assigned: `captured[i]`, which is in `body.written`.
  virtual void assign_captured(const ImportedBody& body, int i, ir::Value* value) = 0;

  // What later nodes say of earlier ones: the import begins anew, with all that was noted, when something that was asked for
  // in vain was noted afterwards. nullptr: not known.
  virtual const std::vector<int64_t>* noted(const std::string& what) = 0;
  virtual void note(const std::string& what, std::vector<int64_t> value) = 0;
  // Error(kUnsupportedOps) that names the operator when all are imported, unless the import begins anew.
  virtual void unsupported_at_the_end(const std::string& what) = 0;

  // Shared helpers of importers.
  using ImportCall::integer;
  using ImportCall::integers;
  int64_t integer(std::string_view name, int64_t fallback) { return has(name) ? integer(name) : fallback; }
  double real(std::string_view name, double fallback) { return has(name) ? real(name) : fallback; }
  virtual double real(std::string_view name) override = 0;
  std::string text(std::string_view name, std::string_view fallback) {
    return has(name) ? text(name) : std::string(fallback);
  }
  virtual std::string text(std::string_view name) override = 0;
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> fallback) {
    return has(name) ? integers(name) : std::move(fallback);
  }
  // Operands that are attributes of our ops (`what`: "shape", "axes"), which the model must say:
  // Error(kUnsupportedOps) naming the operand otherwise. Numbers beyond 32 bits are cut to the nearest, which
  // places in tensors cannot tell apart, or refused.
  std::vector<int64_t> clamped_operand_integers(int i, std::string_view what);
  std::vector<int64_t> operand_integers(int i, std::string_view what);
  double operand_real(int i, std::string_view what);

 private:
  ConstantPtr known(int i, std::string_view what);
};

// Elements of a constant of any type.
std::vector<int64_t> integers_of(const ConstantData& data);  // IPU_CHECK: integers or booleans
std::vector<double> reals_of(const ConstantData& data);

}  // namespace ipu::ops
