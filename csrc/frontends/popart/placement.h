// Where and when the nodes of a model run: virtual graphs, pipeline stages and execution phases become blocks with a
// place each.
#pragma once

#include <map>
#include <string>

#include "frontends/common/step_builder.h"
#include "frontends/popart/model_program.h"
#include "frontends/records/records.h"

namespace ipu::frontends::popart {

// Places the nodes by their annotations, which take_annotations() has read, or finds places where an option asks for
// that. From then on settings of nodes name blocks. Gives the place of each block.
// Error(kOption): no annotations where they are needed, stages or phases that break the rules, too few micro-batches for
// a pipeline, too few cuts for automatic virtual graphs.
std::map<std::string, StepOptions::Placement> place_nodes(records::ModelRecord& model,
                                                          const SessionSettings& settings);

// Virtual graphs by cost. `model` says nothing about places.
void assign_virtual_graphs(records::ModelRecord& model, const SessionSettings& settings);

}  // namespace ipu::frontends::popart
