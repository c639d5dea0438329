// Memory of a value that takes another value.
#pragma once

#include <string>

#include "ir/builder.h"
#include "ir/effects.h"
#include "ir/structure.h"
#include "ops/definition/build.h"

namespace ipu::ops {

// `target` takes `value`, of the same type; the result is that memory as it is then. `value` may lie in it as well.
inline ir::Value* overwritten(ir::Builder& builder, ir::Value* target, ir::Value* value) {
  ir::Op* write = builder.create(ir::kind::kWrite, {target, value}, {}, {});
  ir::Value* seen = build(builder, "nop", {target}, {{std::string(ir::kInPlace), int64_t{0}}});
  seen->producer()->after.push_back(write);
  return seen;
}

}  // namespace ipu::ops
