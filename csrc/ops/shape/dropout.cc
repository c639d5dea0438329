// Importers of dropout, which is the identity in evaluation and with probability 0. Training needs random
// ops.
#include "ops/rule_support.h"

namespace ipu::ops {
namespace {

void import_dropout(ImportCall& call) {
  const bool training = call.has("train") && call.boolean("train");
  if (training && call.real("p") != 0.0) {
    call.unsupported(
        "dropout in training needs random ops, which are not there yet; set p=0 or call model.eval()");
  }
  call.set_result(0, call.tensor("input"));
  if (call.result_count() > 1)
    call.set_result(1, call.builder().splat(call.result_type(1), 1.0));  // all kept
}

struct Registrations {
  Registrations() {
    for (const char* name :
         {"dropout", "native_dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}) {
      register_aten_importer(name, import_dropout);
    }
  }
};
const Registrations registrations;

}  // namespace
}  // namespace ipu::ops
