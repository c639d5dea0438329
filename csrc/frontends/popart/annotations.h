// What nodes say about themselves beside their meaning: attributes with names that begin with "__".
#pragma once

#include <map>
#include <string>

#include "frontends/common/step_builder.h"
#include "frontends/popart/model_program.h"
#include "frontends/records/records.h"

namespace ipu::frontends::popart {

// Takes the annotations out of all nodes, those of subgraphs too, and writes what counts into their settings; gives the
// place of each block that the settings name. Error(kOption) where some nodes have an annotation that counts and others
// have not, and where one is out of range.
std::map<std::string, StepOptions::Placement> take_annotations(records::GraphRecord& graph,
                                                               const SessionSettings& settings);

}  // namespace ipu::frontends::popart
