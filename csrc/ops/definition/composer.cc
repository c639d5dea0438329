// See composer.h.
#include "ops/definition/composer.h"

namespace ipu::ops {

Composer::Composer(ir::Op& op)
    : op_(op), attributes_(with_defaults(*definition(op), op.attributes)), builder_(op.graph(), &op) {
  builder_.settings = op.settings;
  builder_.location = op.location;
  builder_.origin = op.origin;
}

ir::Value* Composer::op(std::string_view kind, std::initializer_list<ir::Value*> operands,
                        Attributes attributes) {
  return build(builder_, kind, operands, std::move(attributes));
}
ir::Value* Composer::cast(ir::Value* x, DType dtype) {
  return x->type().dtype == dtype ? x : op("cast", {x}, {{"dtype", dtype}});
}
ir::Value* Composer::reshape(ir::Value* x, Shape shape) {
  return x->type().shape == shape ? x : op("reshape", {x}, {{"shape", std::move(shape)}});
}
ir::Value* Composer::expand(ir::Value* x, Shape shape) {
  return x->type().shape == shape ? x : op("expand", {x}, {{"shape", std::move(shape)}});
}
ir::Value* Composer::reduce(std::string_view kind, ir::Value* x, std::vector<int64_t> dims, bool keep_dims) {
  return op(kind, {x}, {{"dims", std::move(dims)}, {"keep_dims", keep_dims}});
}

}  // namespace ipu::ops
