// Importers of ai.graphcore's identities and of its casts from and to 8-bit floats.
#include <fmt/core.h>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

// Where a tensor lies on its tiles is the compiler's business: the values are those of operand 0.
void import_tensor_remap(NodeImportCall& call) {
  const int64_t kind = call.integer("remap_type", 0);
  if (kind < 0 || kind > 2)
    node_attribute_error(
        call, fmt::format("has remap_type {}; it is 0 (there and back), 1 (both) or 2 (forward)", kind));
  call.has_operand(1);
  call.set_result(0, call.op("nop", {call.operand(0)}));
}

ir::Value* scale_of(NodeImportCall& call) {
  ir::Value* scale = call.operand(1);
  if (scale->type().elements() != 1 || scale->type().dtype != DType::kI8)
    node_dtype_error(call, fmt::format("has a scale of {} {}; it is one i8 number",
                                       to_string(scale->type().dtype), to_string(scale->type().shape)));
  return reshaped(call, call.cast(scale, DType::kI32), {});
}

DType dtype_named(NodeImportCall& call, const std::string& name) {
  if (name == "FLOAT") return DType::kF32;
  if (name == "FLOAT16") return DType::kF16;
  if (name == "FLOAT8_143") return DType::kF8_143;
  if (name == "FLOAT8_152") return DType::kF8_152;
  node_attribute_error(
      call, fmt::format("has to=\"{}\"; there are FLOAT, FLOAT16, FLOAT8_143 and FLOAT8_152", name));
}

void import_float8_cast(NodeImportCall& call, const char* kind, const char* fallback) {
  call.set_result(0, call.op(kind, {call.operand(0), scale_of(call)},
                             {{"dtype", dtype_named(call, call.text("to", fallback))}}));
}

struct ConversionGraphcoreImporters {
  ConversionGraphcoreImporters() {
    register_graphcore_importer(
        {"Nop", "nop", "x:NB", "y=:NB", "yes", "", "The input; nothing is optimised across it."},
        node_importer_of("nop", {}));
    register_graphcore_importer(
        {"Detach", "detach", "x:NB", "y=:NB", "none", "", "The input; no gradient passes."},
        node_importer_of("detach", {}));
    register_graphcore_importer({"TensorRemap", "tensorremap", "x:X reference?:X", "y=:X", "yes",
                                 "remap_type:remap type=0, debugPrefix:debug=''",
                                 "The input on tiles of its own, or on those of a second tensor."},
                                import_tensor_remap);
    register_graphcore_importer(
        {"Pow2ScaleThenCast", "", "x:FLOAT16 log2Scale:INT8", "y:F8", "none", "to:string", ""},
        [](NodeImportCall& call) { import_float8_cast(call, "to_float8", "FLOAT8_143"); });
    register_graphcore_importer(
        {"CastThenPow2Scale", "", "x:F8 log2Scale:INT8", "y:F", "none", "to:string", ""},
        [](NodeImportCall& call) { import_float8_cast(call, "from_float8", "FLOAT16"); });
  }
};
const ConversionGraphcoreImporters conversion_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
