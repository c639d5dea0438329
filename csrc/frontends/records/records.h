// A model as plain data: nodes of some domain, as ONNX and TensorFlow write them down. No file format and no
// meaning of operators is known here; names tie nodes together.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/settings.h"
#include "ir/type.h"
#include "support/attributes.h"

namespace ipu::frontends::records {

struct GraphRecord;

struct NodeRecord {
  std::string domain, type;                    // "" is "ai.onnx"
  int version = 0;                             // of the domain; 0: the one the model states
  std::string name;                            // for messages; may be empty
  std::vector<std::string> operands, results;  // "": absent
  Attributes attributes;
  std::map<std::string, GraphRecord> subgraphs;
  ir::Settings settings;  // of the ops it becomes
  ir::Location location;  // nullptr: the model's source and the node's name
};

struct GraphRecord {
  struct Input {
    std::string name;
    ir::Type type;  // as the host gives it: i64 is narrowed at that edge
  };
  struct Initialiser {
    std::string name;
    ConstantPtr value;     // nullptr: no importer needs it, `fed` says what it is
    bool trained = false;  // a variable that an optimizer updates; else a constant of the program
    // A variable that only the host changes. It stays a constant where an importer asks what it is.
    bool is_variable = false;
    ReplicaGrouping grouping = {};
    bool has_group_dimension = false;  // `value` has one value for each group, in front; the host sends them
    ir::Retrieval retrieval = ir::Retrieval::kOnePerGroup;
    // A variable whose first value, of this type, is sent by the host: the program has none. Else it starts with `value`.
    std::optional<ir::Type> fed = {};
    ir::Type type() const { return value != nullptr ? ir::Type{value->dtype, value->shape} : fed.value(); }
  };
  std::string name;
  std::vector<Input> inputs;  // of a graph inside a node: names; types follow what it is given
  std::vector<Initialiser> initialisers;
  std::vector<NodeRecord> nodes;  // each after those whose results it reads
  std::vector<std::string> outputs;
  std::vector<DType> output_types;  // as the host takes them; empty: as the device has them
  std::string output_prefix;        // the stream of an output goes by this and its name
};

struct ModelRecord {
  std::string source = "<model>";  // what messages call it: a file name
  // "popart": operators follow PopART's rules where these differ. "tensorflow": nodes run in the order they stand in, and
  // read of initialisers what nodes before them assigned; streams are numbered, "in:0", "out:0".
  std::string dialect = "onnx";
  std::map<std::string, int> versions;  // of the domains
  std::vector<std::string> gradients;   // values of the main graph whose gradients the host is to see
  GraphRecord graph;
};

// "ai.onnx::Gemm (version 13) of node 'fc'"; a node without a name is named by its first result.
std::string described(const NodeRecord& node, int version);
std::string node_name(const NodeRecord& node);  // "node 'fc'", "the node that gives 'y'"

}  // namespace ipu::frontends::records
