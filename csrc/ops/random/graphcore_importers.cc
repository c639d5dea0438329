// Importer of ai.graphcore's dropout with a mask of another shape, which is broadcast. A program that does not train
// gives x.
#include <fmt/core.h>

#include "ops/definition/graphcore_nodes.h"
#include "ops/random/random_support.h"

namespace ipu::ops {
namespace {

void import_shaped_dropout(NodeImportCall& call) {
  require_float(call, 0);
  ir::Value* x = call.operand(0);
  const Shape &shape = x->type().shape, mask = call.integers("shape");
  const double ratio = call.real("ratio", 0.5);
  if (!(ratio >= 0.0 && ratio < 1.0))
    node_attribute_error(call, fmt::format("has ratio {:g}; it is in [0, 1)", ratio));
  bool fits = mask.size() <= shape.size();
  for (size_t d = 0; fits && d < mask.size(); ++d) {
    const int64_t size = shape[shape.size() - mask.size() + d];
    fits = mask[d] == 1 || mask[d] == size;
  }
  if (!fits)
    node_shape_error(call, fmt::format("of {} has a mask of shape {}, which cannot be broadcast to it",
                                       to_string(shape), to_string(mask)));
  if (!call.is_training() || ratio == 0.0) return call.set_result(0, call.op("nop", {x}));
  ir::Value* kept = call.op("dropout", {call.builder().splat({x->type().dtype, mask}, 1.0), call.seed()},
                            {{"p", ratio}, {"stream_id", call.next_stream()}});
  call.set_result(0, call.op("mul", {x, kept}));
}

struct RandomGraphcoreImporters {
  RandomGraphcoreImporters() {
    register_graphcore_importer({"ShapedDropout", "shapeddropout", "x:F", "y=:F", "yes",
                                 "shape:ints, ratio:float=0.5", "Dropout with a mask that is broadcast."},
                                import_shaped_dropout);
  }
};
const RandomGraphcoreImporters random_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
