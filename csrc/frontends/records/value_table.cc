#include "frontends/records/value_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "ops/definition/node_import_call.h"
#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::frontends::records {

DType device_dtype(DType host) {
  if (host == DType::kI64) return DType::kI32;
  return host == DType::kF64 ? DType::kF32 : host;
}

bool fits_device(const ConstantData& data) {
  if (data.dtype != DType::kI64) return true;
  const std::vector<int64_t> values = ops::integers_of(data);
  return std::all_of(values.begin(), values.end(),
                     [](int64_t value) { return value == static_cast<int32_t>(value); });
}

ConstantPtr device_constant(const ConstantPtr& data, const std::string& name) {
  const DType dtype = device_dtype(data->dtype);
  if (dtype == data->dtype) return data;
  const size_t count = data->bytes.size() / 8;
  auto narrowed = std::make_shared<ConstantData>();
  narrowed->dtype = dtype;
  narrowed->shape = data->shape;
  narrowed->bytes.resize(count * 4);
  for (size_t i = 0; i < count; ++i) {
    const std::byte* from = data->bytes.data() + i * 8;
    std::byte* to = narrowed->bytes.data() + i * 4;
    if (dtype == DType::kF32) {
      double wide;
      std::memcpy(&wide, from, 8);
      const auto value = static_cast<float>(wide);
      std::memcpy(to, &value, 4);
      continue;
    }
    int64_t wide;
    std::memcpy(&wide, from, 8);
    const auto value = static_cast<int32_t>(wide);
    if (value != wide)
      throw Error(
          ErrorCode::kTypeMismatch,
          fmt::format("value out of range: element {} of '{}' is {}; the IPU has 32-bit integers, from "
                      "-2147483648 to 2147483647.",
                      i, quotation(name), wide));
    std::memcpy(to, &value, 4);
  }
  return narrowed;
}

Known* ValueTable::find(const std::string& name) {
  const auto at = known_.find(name);
  return at == known_.end() ? nullptr : &at->second;
}

void ValueTable::add(const std::string& name, Known known) {
  if (!known_.emplace(name, std::move(known)).second)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("duplicate name: two inputs or initialisers are called '{}'.", quotation(name)));
}

ir::Value* ValueTable::value(ir::Builder& builder, const std::string& name, Known& known) {
  if (known.value == nullptr) known.value = builder.constant(device_constant(known.constant, name), name);
  return known.value;
}

void ValueTable::add_input(const GraphRecord::Input& input) {
  Known known;
  known.value = graph_->add_input({device_dtype(input.type.dtype), input.type.shape}, input.name);
  add(input.name, known);
  ForwardGraph::Input& described = forward_->inputs.emplace_back();
  described.name = input.name;
  described.host_dtype = input.type.dtype;
}

void ValueTable::add_initialiser(const GraphRecord::Initialiser& initialiser, bool is_written) {
  Known known;
  known.constant = initialiser.value;
  known.is_initialiser = true;
  add(initialiser.name, known);
  if (!initialiser.trained && !initialiser.is_variable && !is_written) return;
  // What no device can hold says something of the model: the end of a slice.
  if (!initialiser.trained && !is_written && known.constant != nullptr && !fits_device(*known.constant))
    return;
  const DType dtype = initialiser.type().dtype;
  if (initialiser.trained && !is_floating_point(dtype))
    throw Error(
        ErrorCode::kNotDifferentiable,
        fmt::format("not differentiable: initialiser '{}' is to be trained and is {}; only floating-point "
                    "ones can be.",
                    quotation(initialiser.name), to_string(dtype)));
  make_variable(initialiser, *find(initialiser.name));
}

void ValueTable::make_variable(const GraphRecord::Initialiser& initialiser, Known& known) {
  const std::string& name = initialiser.name;
  const ConstantPtr initial = known.constant == nullptr ? nullptr : device_constant(known.constant, name);
  const ir::Type given = initialiser.type();
  ir::Type type{device_dtype(given.dtype), given.shape};
  if (initialiser.has_group_dimension) type.shape.erase(type.shape.begin());
  ir::Value* input = graph_->add_input(type, name);
  known.value = input;
  // Shapes and axes of a model may stand in initialisers; a program is compiled for what they are.
  const bool may_be_shape = given.dtype == DType::kF64 || !is_floating_point(given.dtype);
  if (!initialiser.is_variable || !may_be_shape || initialiser.has_group_dimension) known.constant = nullptr;
  known.is_variable = true;
  ir::Variable variable;
  variable.name = name;
  variable.type = input->type();
  variable.role = initialiser.trained ? "parameter" : "buffer";
  variable.grouping = initialiser.grouping;
  if (!initialiser.fed) variable.initial = initial;  // with a part for each group, where there are several
  graph_->module()->add_variable(std::move(variable));
  ForwardGraph::Input& described = forward_->inputs.emplace_back();
  described.kind = ForwardGraph::Input::Kind::kVariable;
  described.name = name;
  described.host_dtype = input->type().dtype;
  described.trainable = initialiser.trained;
  described.is_parameter = initialiser.trained || initialiser.is_variable;
  described.grouping = initialiser.grouping;
  described.retrieval = initialiser.retrieval;
}

void ValueTable::write(const std::string& name, ir::Value* value) {
  if (!find(name)->is_variable) written_constants_.insert(name);
  written_.emplace_back(name, value);
}

void ValueTable::write_assigned() {
  for (size_t i = 0; i < forward_->inputs.size(); ++i) {
    if (forward_->inputs[i].kind != ForwardGraph::Input::Kind::kVariable) continue;
    const std::string& name = forward_->inputs[i].name;
    if (ir::Value* value = find(name)->value; value != graph_->inputs()[i]) write(name, value);
  }
}

void ValueTable::append_state_outputs() {
  for (const auto& [name, value] : written_) {
    graph_->append_output(value);
    ForwardGraph::Output& output = forward_->outputs.emplace_back();
    output.kind = ForwardGraph::Output::Kind::kState;
    output.name = name;
    output.host_dtype = value->type().dtype;
  }
}

}  // namespace ipu::frontends::records
