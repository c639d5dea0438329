// What the names of a model stand for while it is imported: values of the graph, constants the model states,
// variables.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontends/common/step_builder.h"
#include "frontends/records/records.h"
#include "ir/builder.h"

namespace ipu::frontends::records {

struct Known {
  ir::Value* value = nullptr;  // of a constant: nullptr until somebody wants it as a value
  ConstantPtr constant;        // in the type of the model; nullptr: known only when the program runs
  bool is_variable = false;    // an initialiser that is trained, written or the host's, or follows from such
  bool is_initialiser = false;
  bool is_missing = false;  // the operator that gives it could not be imported
};

class ValueTable {
 public:
  // `forward` gets an input for each variable, and an output for each that is written.
  ValueTable(ir::Graph* graph, ForwardGraph* forward) : graph_(graph), forward_(forward) {}

  Known* find(const std::string& name);  // nullptr: nothing is called that
  // Error(kTypeMismatch) when something is called `name` already.
  void add(const std::string& name, Known known);
  // The value, made from the constant when there is none yet: i64 as i32 and f64 as f32.
  ir::Value* value(ir::Builder& builder, const std::string& name, Known& known);

  void add_input(const GraphRecord::Input& input);
  // `is_written`: some node gives it a new value.
  void add_initialiser(const GraphRecord::Initialiser& initialiser, bool is_written);
  // The new value of an initialiser after a pass. All variables' writes are outputs of the graph at the end.
  void write(const std::string& name, ir::Value* value);
  void write_assigned();  // variables that are no longer what they were at the beginning
  void append_state_outputs();
  const std::unordered_map<std::string, Known>& all() const { return known_; }
  // Initialisers that were written though they are constants here.
  const std::set<std::string>& written_constants() const { return written_constants_; }

 private:
  void make_variable(const GraphRecord::Initialiser& initialiser, Known& known);

  ir::Graph* graph_;
  ForwardGraph* forward_;
  std::unordered_map<std::string, Known> known_;
  std::vector<std::pair<std::string, ir::Value*>> written_;
  std::set<std::string> written_constants_;
};

// `data` in a type of the device: i64 becomes i32, f64 becomes f32. Error(kTypeMismatch) for an integer that
// does not fit; `name` is what the message calls it.
ConstantPtr device_constant(const ConstantPtr& data, const std::string& name);
bool fits_device(const ConstantData& data);  // whether it has no integer that does not fit
DType device_dtype(DType host);
inline bool is_wide(DType host) { return device_dtype(host) != host; }

}  // namespace ipu::frontends::records
