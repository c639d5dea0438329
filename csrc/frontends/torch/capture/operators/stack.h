// Walking the tensors inside boxed arguments: Tensor, Tensor?, Tensor[], Tensor?[].
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>

namespace ipu::frontends::torch_frontend {

template <typename Function>  // void(const at::Tensor&), defined tensors only
void for_each_tensor(const c10::IValue& value, Function&& f) {
  if (value.isTensor()) {
    const at::Tensor& t = value.toTensor();
    if (t.defined()) f(t);
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) {
      if (t.defined()) f(t);
    }
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) for_each_tensor(element, f);
  }
}

template <typename Function>  // at::Tensor(const at::Tensor&), defined tensors only
c10::IValue map_tensors(const c10::IValue& value, Function&& f) {
  if (value.isTensor()) {
    const at::Tensor& t = value.toTensor();
    return t.defined() ? c10::IValue(f(t)) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) list.push_back(t.defined() ? f(t) : t);
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor() && element.toTensor().defined())
        list.push_back(f(element.toTensor()));
      else
        list.push_back(std::nullopt);
    }
    return list;
  }
  return value;
}

}  // namespace ipu::frontends::torch_frontend
