// Importer of ai.graphcore's Sort. It is always stable.
#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

void import_sort(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  flag_of(call, "stable", false);
  ir::Op* sorted = build_op(call.builder(), "sort", std::vector<ir::Value*>{x},
                            {{"dim", axis_of(call, "axis", -1, x->type().shape.size())},
                             {"descending", flag_of(call, "descending", false)}});
  for (int i = 0; i < 2; ++i) call.set_result(i, sorted->result(i));
}

struct SortingGraphcoreImporters {
  SortingGraphcoreImporters() {
    register_graphcore_importer(
        {"Sort", "sort", "x:N", "values:N indices:INT32", "none",
         "axis:int=-1, descending:flag=0, stable:flag=0", "Values in order and where they were."},
        import_sort);
  }
};
const SortingGraphcoreImporters sorting_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
