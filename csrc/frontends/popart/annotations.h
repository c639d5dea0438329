// What nodes say about themselves beside their meaning: attributes with names that begin with "__".
#pragma once

#include "frontends/popart/model_program.h"
#include "frontends/records/records.h"

namespace ipu::frontends::popart {

// Takes the annotations out of all nodes, those of subgraphs too, and writes what counts into their settings.
// Error(kOption) where some nodes of the main graph have an annotation that counts and others have not, where one is
// out of range, and where a node says whether it is recomputed although an option does.
void take_annotations(records::GraphRecord& graph, const SessionSettings& settings);

}  // namespace ipu::frontends::popart
