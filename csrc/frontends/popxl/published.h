// What users are given for the op types of kinds/: functions of popxl.ops, and arguments of createOp_<Class> of
// popart._internal.ir. The rows stand with those of the kinds.
#pragma once

#include <string>
#include <vector>

namespace ipu::popxl {

// A function of popxl.ops that makes one op of its arguments. scripts/popxl_functions.py writes popxl/ops/functions.py and
// popxl/ops/var_updates/functions.py from these rows, and says what kinds of parameters there are.
struct PopxlFunction {
  std::string type;  // of the op
  // "topk(t, k:int, share:share=None) -> topk_value, topk_indices; sorted=True": parameters, names of the outputs, attributes that
  // are always the same. A parameter is "name:kind>attribute@input=default"; without a kind it is the next input, without an
  // attribute that of its name. x? may be left out; an output y! is not returned. "var_updates.f(...)" stands in that module.
  std::string signature;
  std::string doc;
  std::string example = "";  // lines that follow ">>> "
};
std::vector<PopxlFunction> popxl_functions();  // by type and name

class FunctionRegistration {
 public:
  FunctionRegistration(std::vector<PopxlFunction> functions);  // NOLINT: by design
};

// The arguments that make ops of some classes of popart._internal.ir.op: "opid starts_>starts:ints axis:int=0 settings"; their
// conversions are in popart/_impl/facade/creators.py. Elementwise kinds without attributes need no row.
struct Creator {
  std::string classes;  // "TransposeOp TransposeInplaceOp"
  std::string arguments;
};
const std::vector<Creator>& creators();

class CreatorRegistration {
 public:
  CreatorRegistration(std::vector<Creator> rows);  // NOLINT: by design
};

}  // namespace ipu::popxl
