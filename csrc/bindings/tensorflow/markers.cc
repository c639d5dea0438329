// Ops that stand in traced graphs only, where no kernel is needed: records.py writes them as nodes of the domain "ipu".
#include "bindings/tensorflow/registration.h"

namespace ipu::tensorflow {
namespace {

[[maybe_unused]] const bool is_registered = [] {
  register_op({.name = "IpuInfeedDequeue",
               .attributes = {"queue: string", "dtypes: list(type) >= 1", "shapes: list(shape) >= 1"},
               .outputs = {"element: dtypes"}});
  register_op({.name = "IpuOutfeedEnqueue",
               .attributes = {"queue: string", "mode: string", "T: list(type) >= 1"},
               .inputs = {"element: T"}});
  register_op(
      {.name = "IpuPrint", .attributes = {"title: string", "T: list(type) >= 1"}, .inputs = {"x: T"}});
  // The body is a graph of Python's (loops.py), found by the name of the op.
  register_op(
      {.name = "IpuRepeat",
       .attributes = {"n: int", "Tn: list(type) >= 0", "T: list(type) >= 0", "Tcaptured: list(type) >= 0"},
       .inputs = {"trips: Tn", "carried: T", "captured: Tcaptured"},
       .outputs = {"results: T"}});
  return true;
}();

}  // namespace
}  // namespace ipu::tensorflow
