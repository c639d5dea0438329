// Importers of ai.graphcore's activations.
#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

struct ActivationGraphcoreImporters {
  ActivationGraphcoreImporters() {
    register_graphcore_importer("Gelu", [](NodeImportCall& call) {
      call.set_result(0, call.op("gelu", {call.operand(0)}, {{"approximate", std::string("tanh")}}));
    });
    register_graphcore_importer(
        "GeluErf", [](NodeImportCall& call) { call.set_result(0, call.op("gelu", {call.operand(0)})); });
    register_graphcore_importer("Swish", node_importer_of("silu", {}));
  }
};
const ActivationGraphcoreImporters activation_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
