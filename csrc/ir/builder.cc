#include "ir/builder.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "ir/structure.h"
#include "support/error.h"
#include "support/float8.h"
#include "support/half.h"

namespace ipu::ir {

Op* Builder::create(std::string_view kind, std::span<Value* const> operands, Attributes attributes,
                    std::span<const Type> result_types, std::string_view name_hint) {
  Op* op = graph_->create(kind, operands, std::move(attributes), result_types, before_, name_hint);
  op->settings = settings;
  op->location = location;
  op->origin = origin;
  return op;
}

Op* Builder::create(std::string_view kind, std::initializer_list<Value*> operands, Attributes attributes,
                    std::initializer_list<Type> result_types, std::string_view name_hint) {
  return create(kind, std::span<Value* const>(operands.begin(), operands.size()), std::move(attributes),
                std::span<const Type>(result_types.begin(), result_types.size()), name_hint);
}

Value* Builder::constant(ConstantPtr data, std::string_view name_hint) {
  Type type{data->dtype, data->shape};
  return create(kind::kConstant, {}, {{"value", std::move(data)}}, {type}, name_hint)->result();
}

Value* Builder::scalar(DType dtype, double value) { return constant(make_scalar(dtype, value)); }

Value* Builder::splat(const Type& type, double value) {
  Value* single = scalar(type.dtype, value);
  if (type.shape.empty()) return single;
  return create("expand", {single}, {{"shape", type.shape}}, {Type{type.dtype, type.shape}})->result();
}

namespace {
std::vector<Type> types_of(const std::vector<Value*>& values) {
  std::vector<Type> types;
  for (const Value* value : values) types.push_back(value->type());
  return types;
}
std::vector<Value*> results_of(const Op& op) {
  std::vector<Value*> results;
  for (int i = 0; i < op.result_count(); ++i) results.push_back(op.result(i));
  return results;
}
}  // namespace

std::vector<Value*> Builder::call(Graph* callee, std::span<Value* const> arguments) {
  return results_of(
      *create(kind::kCall, arguments, {{"callee", Symbol{callee->name()}}}, types_of(callee->outputs())));
}

std::vector<Value*> Builder::repeat(std::string_view kind, std::span<Value* const> carried,
                                    std::span<Value* const> invariant, Attributes attributes) {
  std::vector<Value*> operands(carried.begin(), carried.end());
  operands.insert(operands.end(), invariant.begin(), invariant.end());
  std::vector<Type> types;
  for (const Value* value : carried) types.push_back(value->type());
  attributes.set("carried", static_cast<int64_t>(carried.size()));
  return results_of(*create(kind, operands, std::move(attributes), types));
}

std::vector<Value*> Builder::loop(Graph* body, std::span<Value* const> carried,
                                  std::span<Value* const> invariant, int64_t trip) {
  return repeat(kind::kLoop, carried, invariant, {{"body", Symbol{body->name()}}, {"trip", trip}});
}

std::vector<Value*> Builder::pipeline(Graph* stage, std::span<Value* const> carried,
                                      std::span<Value* const> invariant, int64_t micro_batches) {
  return repeat(kind::kPipeline, carried, invariant,
                {{"stages", std::vector<Symbol>{Symbol{stage->name()}}},
                 {"schedule", std::string("grouped")},
                 {"micro_batches", micro_batches}});
}

std::vector<Value*> Builder::branch(Value* condition, Graph* then_graph, Graph* else_graph,
                                    std::span<Value* const> arguments) {
  std::vector<Value*> operands{condition};
  operands.insert(operands.end(), arguments.begin(), arguments.end());
  return results_of(*create(kind::kIf, operands,
                            {{"then", Symbol{then_graph->name()}}, {"else", Symbol{else_graph->name()}}},
                            types_of(then_graph->outputs())));
}

Value* Builder::read_variable(const Variable& variable) {
  return create(kind::kVariableRead, {}, {{"variable", Symbol{variable.name}}}, {variable.type},
                variable.name)
      ->result();
}

void Builder::assign_variable(const Variable& variable, Value* value) {
  create(kind::kVariableAssign, {value}, {{"variable", Symbol{variable.name}}}, {});
}

Value* Builder::host_load(const Stream& stream) {
  return create(kind::kHostLoad, {}, {{"stream", Symbol{stream.name}}}, {stream.type}, stream.name)->result();
}

void Builder::host_store(const Stream& stream, Value* value) {
  create(kind::kHostStore, {value}, {{"stream", Symbol{stream.name}}}, {});
}

void Builder::push(const Ring& ring, Value* value) {
  create(kind::kRingPush, {value}, {{"ring", Symbol{ring.name}}}, {});
}

Value* Builder::pop(const Ring& ring) {
  return create(kind::kRingPop, {}, {{"ring", Symbol{ring.name}}}, {ring.type}, ring.name)->result();
}

Value* Builder::replica_index() {
  return create(kind::kReplicaIndex, {}, {}, {Type{DType::kI32, {}}}, "replica")->result();
}

ConstantPtr make_constant(DType dtype, Shape shape, const void* bytes) {
  auto data = std::make_shared<ConstantData>();
  data->dtype = dtype;
  data->bytes.resize(size_in_bytes(dtype, shape));
  data->shape = std::move(shape);
  if (!data->bytes.empty()) std::memcpy(data->bytes.data(), bytes, data->bytes.size());
  return data;
}

ConstantPtr make_scalar(DType dtype, double value) {
  auto store = [&](auto typed) { return make_constant(dtype, {}, &typed); };
  switch (dtype) {
    case DType::kF32:
      return store(static_cast<float>(value));
    case DType::kF64:
      return store(value);
    case DType::kF16:
      return store(float_to_half(static_cast<float>(value)));
    case DType::kI32:
      return store(static_cast<int32_t>(std::clamp(value, -2147483648.0, 2147483647.0)));
    case DType::kU32:
      return store(static_cast<uint32_t>(std::clamp(value, 0.0, 4294967295.0)));
    case DType::kI16:
      return store(static_cast<int16_t>(value));
    case DType::kU16:
      return store(static_cast<uint16_t>(value));
    case DType::kI8:
      return store(static_cast<int8_t>(value));
    case DType::kU8:
      return store(static_cast<uint8_t>(value));
    case DType::kBool:
      return store(static_cast<uint8_t>(value != 0.0));
    case DType::kI64:
      return store(static_cast<int64_t>(value));
    case DType::kF8_143:
    case DType::kF8_152:
      return store(double_to_float8(value, dtype));
  }
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("unsupported constant: a scalar of type {}.", ipu::to_string(dtype)));
}

}  // namespace ipu::ir
