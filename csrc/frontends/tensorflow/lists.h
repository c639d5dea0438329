// TensorLists of records as tensors. A list is a stack of entries of one type, of which there is room for so many, and the
// number of those that are there: two values, "<name>" and "<name>#1". A list of lists is a list for each of the two, and so
// on. So nothing else of a unit knows of lists: loops and branches carry the two values like any others.
//
// Which values are lists, and which of them are one list at different times, follows from the nodes alone; the type of the
// entries and the room for them may be known only when nodes are imported: the importers (ops/control/list_importers.cc) note
// them under the number of the list, and the import begins anew where they were needed before.
#pragma once

#include <optional>

#include "frontends/records/records.h"

namespace ipu::frontends::tensorflow {

// nullopt: the graph has no lists. Nodes of lists get attributes: "list", the number of the list; of those that make one
// "pushes", the loops around each node that appends to the list, from the outside, without those around the list. Loops
// that are named there have a "loop", their number. "grows" is true where the list may have fewer entries than there is room for.
std::optional<records::GraphRecord> with_lists_as_tensors(const records::GraphRecord& graph);

}  // namespace ipu::frontends::tensorflow
