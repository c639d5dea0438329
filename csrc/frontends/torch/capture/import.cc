// A call of the program: its tensors are what the memory of the capture says, and random operators draw from
// its seed.
#include "frontends/torch/capture/capture.h"
#include "frontends/torch/capture/operators/aten_call.h"

namespace ipu::frontends::torch_frontend {
namespace {

class CapturedCall final : public AtenCall {
 public:
  CapturedCall(Capture& capture, const OpInfo& info, at::ArrayRef<c10::IValue> arguments,
               std::vector<ir::Type> results)
      : AtenCall(capture.builder(), info, arguments, std::move(results)), capture_(capture) {}

  void write(std::string_view name, ir::Value* value) override {
    capture_.memory().write(tensor_argument(name), value);
  }
  ir::Value* seed() override { return capture_.seed(); }
  int64_t next_stream() override { return capture_.next_stream(); }

 private:
  ir::Value* read(const at::Tensor& t) override { return capture_.memory().read(t); }

  Capture& capture_;
};

}  // namespace

std::vector<ir::Value*> Capture::import(const OpInfo& info, at::ArrayRef<c10::IValue> arguments,
                                        const std::vector<TensorMeta>& results) {
  std::vector<ir::Type> types;
  for (const TensorMeta& m : results) {
    if (!device_dtype(m.dtype))
      throw Error(ErrorCode::kUnsupportedOps, std::string("a result of type ") + c10::toString(m.dtype));
    types.push_back(ir_type(m));
  }
  CapturedCall call(*this, info, arguments, std::move(types));
  (*info.importer)(call);
  return call.take();
}

}  // namespace ipu::frontends::torch_frontend
