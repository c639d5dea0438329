// IpuUnit: a compiled computation as one op of TensorFlow. Buffers of TensorFlow are read and written where they lie; no
// interpreter is asked anything on the way.
#include <string>
#include <utility>

#include "bindings/tensorflow/interruption.h"
#include "bindings/tensorflow/registration.h"
#include "bindings/tensorflow/tensors.h"
#include "runtime/host/unit_registry.h"

namespace ipu::tensorflow {
namespace {

using runtime::HostUnit;

class UnitKernel {
 public:
  explicit UnitKernel(TF_OpKernelConstruction* construction)
      : token_(integer_attribute(construction, "token")), name_(string_attribute(construction, "unit")) {}

  void compute(TF_OpKernelContext* context, const Done& done) const {
    const std::shared_ptr<HostUnit> unit = runtime::find_unit(token_);
    if (unit == nullptr)
      throw error_with(
          TF_FAILED_PRECONDITION,
          "unit '" + name_ +
              "' was not built in this process, or its graph is gone: a graph with units "
              "for the IPU cannot be exported, imported or run elsewhere. Build the program here.");
    const HostUnit::Signature& signature = unit->signature();
    HostUnit::Run run;
    // Tensors of the step, which the op keeps until it is done.
    auto held = std::make_shared<std::vector<TensorPtr>>();
    const int inputs = static_cast<int>(signature.inputs.size());
    const int outputs = static_cast<int>(signature.outputs.size());
    for (int i = 0; i < TF_NumInputs(context); ++i) {
      const TensorPtr tensor = input(context, i);
      if (i < inputs) {
        run.inputs.emplace_back(view_of(tensor));
        held->push_back(tensor);
      } else {
        run.variables.push_back({view_of(tensor), tensor});
      }
    }
    for (int i = 0; i < outputs; ++i) {
      const HostUnit::Tensor& result = signature.outputs[static_cast<size_t>(i)];
      held->push_back(allocate_output(context, i, result.dtype, result.shape));
      run.outputs.push_back(view_of(held->back()));
    }
    for (size_t i = 0; i < signature.written.size(); ++i) {
      // Of the caller's type, which may be wider than the device's.
      const runtime::ConstHostView& variable =
          run.variables.at(static_cast<size_t>(signature.written[i])).view;
      const TensorPtr tensor =
          allocate_output(context, outputs + static_cast<int>(i), variable.dtype, variable.shape);
      run.written.push_back({view_of(tensor), tensor});
    }
    const auto interruption = std::make_shared<Interruption>();
    run.stop = [interruption] { return interruption->is_raised(); };
    runtime::start_run(unit, std::move(run), [done, held, interruption](const std::exception_ptr& raised) {
      interruption->end(raised != nullptr);
      done(raised);
    });
  }

 private:
  int64_t token_;
  std::string name_;
};

[[maybe_unused]] const bool is_registered = [] {
  register_op(
      {.name = "IpuUnit",
       .attributes = {"token: int", "unit: string", "Tinputs: list(type) >= 0", "Tvariables: list(type) >= 0",
                      "Toutputs: list(type) >= 0", "Twritten: list(type) >= 0"},
       .inputs = {"inputs: Tinputs", "variables: Tvariables"},
       .outputs = {"outputs: Toutputs", "written: Twritten"}});
  register_async_kernel<UnitKernel>("IpuUnit");
  return true;
}();

}  // namespace
}  // namespace ipu::tensorflow
