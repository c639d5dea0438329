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
    const auto pair = [](const std::string& type, const char* word, const char* kind, bool negates) {
      register_graphcore_importer(
          {type, fmt::format("bitwise{}", word), "a:I b:I", "out~:I", "error", "args:ids=[]",
           fmt::format("Bitwise {} of two integers; broadcast.", word)},
          [=](NodeImportCall& call) { import_pair(call, kind, negates); });
    };
    pair("BitwiseAnd", "and", "bitwise_and", false);
    pair("BitwiseOr", "or", "bitwise_or", false);
    pair("BitwiseXor", "xor", "bitwise_xor", false);
    pair("BitwiseXnor", "xnor", "bitwise_xor", true);
    register_graphcore_importer(
        {"BitwiseNot", "bitwisenot", "x:I", "out=:I", "error", "args:ids=[]", "Every bit turned over."},
        [](NodeImportCall& call) {
          require_bits(call, 0);
          call.set_result(0, call.op("bitwise_not", {call.operand(0)}));
        });
  }
};
const LogicGraphcoreImporters logic_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
