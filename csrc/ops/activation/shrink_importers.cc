// Importers of the shrinking activations, composed of comparisons and where.
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

// 0 where |x| is at most the bound, elsewhere x, drawn towards 0 by `shift`. NaN stays.
void import_shrink(AtenImportCall& call, bool soft) {
  ir::Value* x = call.cast(call.tensor("self"), call.result_type(0).dtype);
  const double bound = call.has("lambd") ? call.real("lambd") : 0.5;
  const auto scalar = [&](double v) { return call.builder().scalar(x->type().dtype, v); };
  ir::Value* small = call.op("less_equal", {call.op("abs", {x}), scalar(bound)});
  ir::Value* kept = x;
  if (soft) {
    ir::Value* direction = call.op("detach", {call.op("sign", {x})});
    kept = call.op("sub", {x, call.op("mul", {direction, scalar(bound)})});
  }
  call.set_result(0, call.op("where", {small, scalar(0.0), kept}));
}

struct ShrinkImporters {
  ShrinkImporters() {
    register_aten_importer("hardshrink", [](AtenImportCall& call) { import_shrink(call, false); });
    register_aten_importer("softshrink", [](AtenImportCall& call) { import_shrink(call, true); });
  }
};
const ShrinkImporters shrink_importers;

}  // namespace
}  // namespace ipu::ops
