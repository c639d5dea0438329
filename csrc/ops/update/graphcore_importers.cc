// Importer of ai.graphcore's assignment to a variable, whose new value the result is.
#include <fmt/core.h>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

void import_copy(NodeImportCall& call) {
  const int count = call.operand_count();
  if (count != 2)
    node_shape_error(call, fmt::format("has {} operands; it takes a variable and a value", count));
  if (!call.is_initialiser(0))
    node_attribute_error(call, fmt::format("writes '{}', which is no initialiser", call.operand_name(0)));
  const ir::Type variable = call.operand(0)->type(), value = call.operand(1)->type();
  require_equal_dtypes(call, 0, 1);
  if (variable.shape != value.shape)
    node_shape_error(call, fmt::format("writes {} to a variable of {}", to_string(value.shape),
                                       to_string(variable.shape)));
  ir::Value* next = call.op(is_floating_point(value.dtype) ? "detach" : "nop", {call.operand(1)});
  call.assign(0, next);
  call.set_result(0, next);
}

struct UpdateGraphcoreImporters {
  UpdateGraphcoreImporters() {
    register_graphcore_importer(
        {"CopyVarUpdate", "copyvarupdate", "variable:I+F value:I+F", "out=:I+F", "none", "",
         "Assigns a value to a variable, and returns the variable as it is then."},
        import_copy);
  }
};
const UpdateGraphcoreImporters update_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
