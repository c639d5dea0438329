#include "bindings/tensorflow/tensors.h"

#include <array>
#include <string>
#include <utility>

#include "bindings/tensorflow/status.h"
#include "support/error.h"

namespace ipu::tensorflow {
namespace {

constexpr std::array<std::pair<TF_DataType, DType>, 11> kTypes{{{TF_FLOAT, DType::kF32},
                                                                {TF_HALF, DType::kF16},
                                                                {TF_DOUBLE, DType::kF64},
                                                                {TF_INT32, DType::kI32},
                                                                {TF_INT64, DType::kI64},
                                                                {TF_UINT32, DType::kU32},
                                                                {TF_INT16, DType::kI16},
                                                                {TF_UINT16, DType::kU16},
                                                                {TF_INT8, DType::kI8},
                                                                {TF_UINT8, DType::kU8},
                                                                {TF_BOOL, DType::kBool}}};

}  // namespace

DType dtype_of(TF_DataType type) {
  for (const auto& [theirs, ours] : kTypes)
    if (theirs == type) return ours;
  throw Error(ErrorCode::kTypeMismatch, "type mismatch: an IPU has no elements of TensorFlow's type number " +
                                            std::to_string(type) + ". Cast the tensor before.");
}

TF_DataType type_of(DType dtype) {
  for (const auto& [theirs, ours] : kTypes)
    if (ours == dtype) return theirs;
  throw Error(ErrorCode::kTypeMismatch,
              "type mismatch: TensorFlow has no elements of type " + std::string(to_string(dtype)));
}

Shape shape_of(const TF_Tensor* tensor) {
  Shape shape;
  for (int i = 0; i < TF_NumDims(tensor); ++i) shape.push_back(TF_Dim(tensor, i));
  return shape;
}

runtime::HostView view_of(const TensorPtr& tensor) {
  return {dtype_of(TF_TensorType(tensor.get())),
          shape_of(tensor.get()),
          {static_cast<std::byte*>(TF_TensorData(tensor.get())), TF_TensorByteSize(tensor.get())}};
}

TensorPtr input(TF_OpKernelContext* context, int index) {
  Status status;
  TF_Tensor* tensor = nullptr;
  TF_GetInput(context, index, &tensor, status.get());
  status.check();
  return {tensor, TF_DeleteTensor};
}

TensorPtr allocate_output(TF_OpKernelContext* context, int index, DType dtype, const Shape& shape) {
  Status status;
  const auto bytes = static_cast<size_t>(size_in_bytes(dtype, shape));
  TF_Tensor* tensor = TF_AllocateOutput(context, index, type_of(dtype), shape.data(),
                                        static_cast<int>(shape.size()), bytes, status.get());
  status.check();
  return {tensor, TF_DeleteTensor};
}

}  // namespace ipu::tensorflow
