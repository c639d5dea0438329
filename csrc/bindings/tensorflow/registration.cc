#include "bindings/tensorflow/registration.h"

#include "support/error.h"

namespace ipu::tensorflow {

void register_op(const OpSpec& spec) {
  TF_OpDefinitionBuilder* builder = TF_NewOpDefinitionBuilder(spec.name);
  for (const char* attribute : spec.attributes) TF_OpDefinitionBuilderAddAttr(builder, attribute);
  for (const char* input : spec.inputs) TF_OpDefinitionBuilderAddInput(builder, input);
  for (const char* output : spec.outputs) TF_OpDefinitionBuilderAddOutput(builder, output);
  TF_OpDefinitionBuilderSetIsStateful(builder, spec.is_stateful);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, TF_ShapeInferenceContextSetUnknownShape);
  Status status;
  TF_RegisterOpDefinition(builder, status.get());
  IPU_CHECK(status.is_ok(), std::string(spec.name) + ": " + TF_Message(status.get()));
}

void register_builder(const char* op, TF_KernelBuilder* builder) {
  Status status;
  TF_RegisterKernelBuilder(op, builder, status.get());
  IPU_CHECK(status.is_ok(), std::string(op) + ": " + TF_Message(status.get()));
}

std::string string_attribute(TF_OpKernelConstruction* construction, const char* name) {
  Status status;
  int32_t list_size = 0, bytes = 0;
  TF_OpKernelConstruction_GetAttrSize(construction, name, &list_size, &bytes, status.get());
  status.check();
  std::string text(static_cast<size_t>(bytes), '\0');
  TF_OpKernelConstruction_GetAttrString(construction, name, text.data(), text.size(), status.get());
  status.check();
  return text;
}

int64_t integer_attribute(TF_OpKernelConstruction* construction, const char* name) {
  Status status;
  int64_t value = 0;
  TF_OpKernelConstruction_GetAttrInt64(construction, name, &value, status.get());
  status.check();
  return value;
}

}  // namespace ipu::tensorflow
