// Importers of ai.graphcore's bit operators.
#include <fmt/core.h>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

void require_bits(NodeImportCall& call, int i) {
  const DType dtype = call.operand(i)->type().dtype;
  if (dtype != DType::kI32 && dtype != DType::kU32)
    node_dtype_error(call, fmt::format("has {} as operand {}; it takes i32 or u32", to_string(dtype), i));
}

void import_pair(NodeImportCall& call, const char* kind, bool negates) {
  require_bits(call, 0);
  require_bits(call, 1);
  require_equal_dtypes(call, 0, 1);
  ir::Value* y = call.op(kind, {call.operand(0), call.operand(1)});
  call.set_result(0, negates ? call.op("bitwise_not", {y}) : y);
}

struct LogicGraphcoreImporters {
  LogicGraphcoreImporters() {
    for (const auto& [type, kind] :
         {std::pair{"BitwiseAnd", "bitwise_and"}, {"BitwiseOr", "bitwise_or"}, {"BitwiseXor", "bitwise_xor"}})
      register_graphcore_importer(type, [kind = kind](NodeImportCall& c) { import_pair(c, kind, false); });
    register_graphcore_importer("BitwiseXnor",
                                [](NodeImportCall& c) { import_pair(c, "bitwise_xor", true); });
    register_graphcore_importer("BitwiseNot", [](NodeImportCall& call) {
      require_bits(call, 0);
      call.set_result(0, call.op("bitwise_not", {call.operand(0)}));
    });
  }
};
const LogicGraphcoreImporters logic_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
