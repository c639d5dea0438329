// Tensors of TensorFlow as arrays of ours: a reference keeps TensorFlow's buffer alive, and unchanged, since TensorFlow copies a
// buffer that others hold before it writes there.
#pragma once

#include <memory>

#include "bindings/tensorflow/tensorflow_c_api.h"
#include "runtime/host_view.h"

namespace ipu::tensorflow {

using TensorPtr = std::shared_ptr<TF_Tensor>;

// Error(kTypeMismatch) for a type that the IPU does not have.
DType dtype_of(TF_DataType type);
TF_DataType type_of(DType dtype);

Shape shape_of(const TF_Tensor* tensor);
runtime::HostView view_of(const TensorPtr& tensor);

TensorPtr input(TF_OpKernelContext* context, int index);
TensorPtr allocate_output(TF_OpKernelContext* context, int index, DType dtype, const Shape& shape);

}  // namespace ipu::tensorflow
