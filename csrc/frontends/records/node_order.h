// Whether the nodes of a graph can be read from first to last.
#pragma once

#include "frontends/records/records.h"

namespace ipu::frontends::records {

// Error(kTypeMismatch) for the first node that reads a name nothing has given before it: a name nobody gives,
// one a later node gives, or one that depends on the node itself; and for two things of one name. Linear.
void check_order(const GraphRecord& graph);

}  // namespace ipu::frontends::records
