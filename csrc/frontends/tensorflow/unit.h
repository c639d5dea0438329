// From a unit of TensorFlow as node records, whose effects stand in the order they have, to a program. Gradients, updates
// and loops are written out in the records, so no step is built: the entry point is the graph of the records between the
// variables and streams of the host. What an op type means is said by the importers (csrc/ops).
//
// What an assignment gives is what later nodes read, inside of loops, branches and calls too: these carry what they assign
// and read the rest (frontends/records/record_call.h, ops/control/tensorflow_importers.cc).
#pragma once

#include <memory>

#include "frontends/records/records.h"
#include "ir/module.h"

namespace ipu::frontends::tensorflow {

// Entry point "main": reads "in:0", "in:1", ... and the variables, writes "out:0", ... and those variables that some node
// assigns. Streams of feeds are "<queue>:<number of the element>". Errors of records::import_model; the dialect is
// "tensorflow".
std::unique_ptr<ir::Module> build_unit(const records::ModelRecord& unit);

}  // namespace ipu::frontends::tensorflow
