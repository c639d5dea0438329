// Importer of ONNX's dropout: a program that trains drops, one that does not gives x. From version 12 on the node
// itself says whether it may drop.
#include <fmt/core.h>

#include "ops/definition/node_support.h"
#include "ops/random/random_support.h"

namespace ipu::ops {
namespace {

void import_dropout(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  double ratio = 0.5;
  bool drops = call.is_training();
  if (call.version() < 12) {
    ratio = call.real("ratio", ratio);
    if (call.version() < 7) drops = call.integer("is_test", 0) == 0 && drops;
  } else {
    call.ignore("seed");  // the program's seed is given to it as it runs
    if (call.has_operand(1)) ratio = call.operand_real(1, "ratio");
    drops = call.has_operand(2) && call.operand_real(2, "training_mode") != 0.0 && drops;
  }
  if (!(ratio >= 0.0 && ratio < 1.0))
    call.unsupported(fmt::format("a ratio of {:g}; it is in [0, 1)", ratio));
  if (!drops || ratio == 0.0) {
    call.set_result(0, call.op("nop", {x}));
    if (call.has_result(1)) call.set_result(1, call.builder().splat({DType::kBool, x->type().shape}, 1.0));
    return;
  }
  call.set_result(0, call.op("dropout", {x, call.seed()}, {{"p", ratio}, {"stream_id", call.next_stream()}}));
}

struct Registrations {
  Registrations() { register_onnx_importer("Dropout", {6}, import_dropout); }
};
const Registrations registrations;

}  // namespace
}  // namespace ipu::ops
