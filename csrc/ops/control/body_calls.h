// What importers of nodes that hold graphs share (subgraph_importers.cc, tensorflow_importers.cc): graphs of ours that call
// the graphs of a node, and hand their inputs on in the order that branches and loops want.
#pragma once

#include <functional>
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

// The results of one of the bodies, the first whose condition (bool[]) holds, or the last, which has none: those they
// declare, of which there are as many with the same types. What any of them assigns becomes what is read from here on.
GraphValues branch(NodeImportCall& call, const GraphValues& conditions,
                   const std::vector<ImportedBody>& bodies);
// The same of one body that is run in any case, on `arguments`.
GraphValues run_once(NodeImportCall& call, const ImportedBody& body, GraphValues arguments);

// What `body` gives of the number of the round and the carried values after `trip` rounds. It builds by the builder of the call,
// which stands in the loop then; values around the loop that it reads are `stays`. A loop that may end earlier
// (`has_condition`) goes on as long as the first value that `body` gives, bool[], says so.
using Round =
    std::function<GraphValues(ir::Value* index, const GraphValues& carried, const GraphValues& stays)>;
GraphValues repeated(NodeImportCall& call, const std::string& name, int64_t trip, const GraphValues& carried,
                     const GraphValues& stays, const Round& body, bool has_condition = false);

}  // namespace ipu::ops
