// What importers of nodes that hold graphs share (subgraph_importers.cc, tensorflow_importers.cc): graphs of ours that call
// the graphs of a node, and hand their inputs on in the order that branches and loops want.
#pragma once

#include <string>
#include <vector>

#include "ops/definition/node_import_call.h"

namespace ipu::ops {

using GraphValues = std::vector<ir::Value*>;

// At the end of `graph`, with settings and location of the node.
ir::Builder inside(NodeImportCall& call, ir::Graph* graph);

[[noreturn]] void wrong_graph(const std::string& what);  // Error(kTypeMismatch)
// Error(kTypeMismatch) unless the node has as many results as its graph gives.
void check_result_count(NodeImportCall& call, size_t given);

// The results of one of two bodies, which `condition` (bool[]) chooses: those they declare, of which there are as many with
// the same types, and then the new values of what either of them assigns, which becomes what is read from here on.
GraphValues branch(NodeImportCall& call, ir::Value* condition, const ImportedBody& then,
                   const ImportedBody& otherwise);
// The same of one body that is run in any case, on `arguments`.
GraphValues run_once(NodeImportCall& call, const ImportedBody& body, GraphValues arguments);

}  // namespace ipu::ops
