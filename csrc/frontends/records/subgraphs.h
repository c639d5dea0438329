// Graphs inside of nodes (If, Loop, Scan, Call): what they read of the graphs around them, and how the names of
// one begin and end. Importers make calls, loops and branches of them (ops/control).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "frontends/records/value_table.h"
#include "ops/definition/node_import_call.h"

namespace ipu::frontends::records {

// Names that nodes and outputs of the graph read, graphs inside of these included, and that neither it nor they
// give. In the order of the alphabet.
std::set<std::string> names_read_outside(const GraphRecord& graph);

// The names that `record` begins with: its inputs, of these types; initialisers; what it reads of `outside`,
// where constants stay constants and values become inputs of `body.graph`. Error(kTypeMismatch) for a name that
// nothing around it has given yet; `source` is what messages call the model.
void open_body(const GraphRecord& record, const std::vector<ir::Type>& inputs, const std::string& source,
               ValueTable& outside, ir::Builder& around, ValueTable& values, ops::ImportedBody& body);

// The outputs of `record` become those of the graph `builder` stands in. Error(kUnsupportedOps) when one follows
// from an operator that could not be imported.
void close_body(const GraphRecord& record, ValueTable& values, ir::Builder& builder, ops::ImportedBody& body);

}  // namespace ipu::frontends::records
