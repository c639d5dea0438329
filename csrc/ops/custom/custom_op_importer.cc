// poptorch.custom_op: a use of an operation from a user's library, or of the one that is built in.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/custom/custom_kernel.h"
#include "ops/custom/custom_op.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

using Json = nlohmann::json;

// {"name": ["int", 3]}: Python says what each value is, the library's table what it is to be.
struct Given {
  std::string kind;  // int, float, str, ints, floats, strs, nothing (an empty list)
  Json value;
};

std::string_view name_of(int32_t kind) {
  switch (kind) {
    case IPU_BOOLEAN:
      return "a bool";
    case IPU_INTEGER:
      return "an int";
    case IPU_REAL:
      return "a float";
    case IPU_TEXT:
      return "a str";
    case IPU_INTEGERS:
      return "a list of int";
    default:
      return "a list of float";
  }
}

std::string name_of(const std::string& kind) {
  if (kind == "int") return "an int";
  if (kind == "nothing") return "an empty list";
  return kind.back() == 's' ? "a list of " + kind.substr(0, kind.size() - 1) : "a " + kind;
}

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::kTypeMismatch, "attribute mismatch: " + why);
}

Attribute converted(const std::string& op, const std::string& name, int32_t wanted, const Given& given) {
  if (given.kind == "int" && wanted == IPU_INTEGER) return given.value.get<int64_t>();
  if (given.kind == "int" && wanted == IPU_BOOLEAN) {
    const auto number = given.value.get<int64_t>();
    if (number == 0 || number == 1) return number == 1;
  }
  if (given.kind == "float" && wanted == IPU_REAL) return given.value.get<double>();
  if (given.kind == "str" && wanted == IPU_TEXT) return given.value.get<std::string>();
  if ((given.kind == "ints" || given.kind == "nothing") && wanted == IPU_INTEGERS)
    return given.value.get<std::vector<int64_t>>();
  if ((given.kind == "floats" || given.kind == "nothing") && wanted == IPU_REALS)
    return given.value.get<std::vector<double>>();
  refuse(fmt::format("'{}' of {} is {}, got {} ({})", name, op, name_of(wanted), name_of(given.kind),
                     given.value.dump()));
}

Attributes attributes_of(const std::string& op, const ipu_custom_op& table, const std::string& text) {
  Attributes attributes;
  std::string known;
  for (int32_t i = 0; i < table.attribute_count; ++i)
    known += (i > 0 ? ", '" : "'") + std::string(table.attributes[i].name) + "'";
  std::set<std::string> found;
  const Json given = Json::parse(text);
  for (const auto& [name, entry] : given.items()) {
    const ipu_attribute* attribute = nullptr;
    for (int32_t i = 0; i < table.attribute_count; ++i)
      if (name == table.attributes[i].name) attribute = &table.attributes[i];
    if (attribute == nullptr)
      refuse(fmt::format("{} has no attribute '{}'; it has {}", op, name, known.empty() ? "none" : known));
    attributes.set(
        name, converted(op, name, attribute->fallback.kind, {entry.at(0).get<std::string>(), entry.at(1)}));
    found.insert(name);
  }
  for (int32_t i = 0; i < table.attribute_count; ++i)
    if (table.attributes[i].required != 0 && !found.contains(table.attributes[i].name))
      refuse(fmt::format("{} needs the attribute '{}', {}", op, table.attributes[i].name,
                         name_of(table.attributes[i].fallback.kind)));
  return attributes;
}

void set_results(AtenImportCall& call, const std::string& op, const std::vector<ir::Value*>& results) {
  const auto refuse_examples = [&](const std::string& why) {
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("example_outputs mismatch: {} gives {}.\n"
                            "  try:      example tensors of the results' shapes and dtypes",
                            op, why));
  };
  if (std::ssize(results) != call.result_count())
    refuse_examples(fmt::format("{} results, example_outputs has {}", results.size(), call.result_count()));
  for (int i = 0; i < call.result_count(); ++i) {
    const ir::Type given = results[i]->type(), wanted = call.result_type(i);
    if (given.dtype != wanted.dtype || given.shape != wanted.shape)
      refuse_examples(fmt::format("result {} as {}, example_outputs[{}] is {}", i, ir::to_string(given), i,
                                  ir::to_string(wanted)));
    call.set_result(i, results[i]);
  }
}

// torch.gather(data, -1, index) for tables whose leading dimensions agree.
void import_fast_gather(AtenImportCall& call) {
  const std::vector<ir::Value*> inputs = call.tensors("inputs");
  const auto refuse_inputs = [](const std::string& why) {
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("operands do not fit: {} takes data and an int32 index of equal rank and equal "
                            "leading dimensions, got {}",
                            kFastGather, why));
  };
  if (inputs.size() != 2) refuse_inputs(fmt::format("{} inputs", inputs.size()));
  const ir::Type data = inputs[0]->type(), index = inputs[1]->type();
  const std::string both = fmt::format("{} and {}", ir::to_string(data), ir::to_string(index));
  if (index.dtype != DType::kI32 || data.shape.empty() || data.shape.size() != index.shape.size() ||
      !std::equal(data.shape.begin(), data.shape.end() - 1, index.shape.begin()))
    refuse_inputs(both);
  const Json given = Json::parse(call.text("attributes"));
  for (const auto& [name, entry] : given.items())
    if (name != "debug_str" || entry.at(0) != "str")
      refuse(fmt::format("{} has one attribute, 'debug_str', a str; got '{}'", kFastGather, name));
  const std::vector<ir::Value*> results{
      call.op("gather", {inputs[0], inputs[1]}, {{"dim", std::ssize(data.shape) - 1}})};
  set_results(call, std::string(kFastGather), results);
}

void import_custom_op(AtenImportCall& call) {
  const std::string op = call.text("operator");
  if (op == kFastGather) return import_fast_gather(call);
  const ipu_custom_op* table = kernels::find_custom_kernel(op);
  if (table == nullptr) call.unsupported("no library defines " + op);
  const std::vector<ir::Value*> inputs = call.tensors("inputs");
  if (std::ssize(inputs) > table->operand_count)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("operands do not fit: {} takes {} inputs, got {}", op,
                                                      table->operand_count, inputs.size()));
  const ir::Op* built =
      build_op(call.builder(), op, inputs, attributes_of(op, *table, call.text("attributes")));
  std::vector<ir::Value*> results;
  for (int i = 0; i < built->result_count(); ++i) results.push_back(built->result(i));
  set_results(call, op, results);
}

struct CustomOpImporter {
  CustomOpImporter() { register_aten_importer("poptorch::custom_op", import_custom_op); }
};
const CustomOpImporter custom_op_importer;

}  // namespace
}  // namespace ipu::ops
