// Units of TensorFlow that were recorded (scripts/tensorflow_fixtures.py) are imported without TensorFlow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "frontends/tensorflow/unit.h"
#include "ir/module.h"
#include "ops/verify.h"
#include "support/half.h"
#include "tests/source_tree.h"

namespace ipu::frontends::tensorflow {
namespace {

using nlohmann::json;
using records::GraphRecord;
using records::ModelRecord;
using records::NodeRecord;

DType dtype_of_numpy(const std::string& name) {
  static const std::map<std::string, DType> kTypes = {
      {"float64", DType::kF64}, {"float32", DType::kF32}, {"float16", DType::kF16},
      {"int64", DType::kI64},   {"int32", DType::kI32},   {"int8", DType::kI8},
      {"uint8", DType::kU8},    {"uint32", DType::kU32},  {"bool", DType::kBool}};
  return kTypes.at(name);
}

ir::Type type_of(const json& dtype, const json& shape) {
  return {dtype_of_numpy(dtype.get<std::string>()), Shape(shape.get<std::vector<int64_t>>())};
}

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  bytes.resize(bytes.size() + sizeof(T));
  std::memcpy(bytes.data() + bytes.size() - sizeof(T), &value, sizeof(T));
}

ConstantPtr array_of(const json& value) {
  const ir::Type type = type_of(value.at("dtype"), value.at("shape"));
  std::vector<std::byte> bytes;
  for (const json& number : value.at("data")) {
    switch (type.dtype) {
      case DType::kF64:
        append(bytes, number.get<double>());
        break;
      case DType::kF32:
        append(bytes, number.get<float>());
        break;
      case DType::kF16:
        append(bytes, double_to_half(number.get<double>()));
        break;
      case DType::kI64:
        append(bytes, number.get<int64_t>());
        break;
      case DType::kI32:
        append(bytes, number.get<int32_t>());
        break;
      case DType::kBool:
        append(bytes,
               static_cast<uint8_t>(number.is_boolean() ? number.get<bool>() : number.get<int>() != 0));
        break;
      default:
        throw std::runtime_error("an array of another type");
    }
  }
  return std::make_shared<ConstantData>(ConstantData{type.dtype, type.shape, std::move(bytes)});
}

Attribute attribute_of(const json& value) {
  if (value.is_object()) return array_of(value);
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (value.empty() || value[0].is_number_integer()) return value.get<std::vector<int64_t>>();
  if (value[0].is_string()) return value.get<std::vector<std::string>>();
  return value.get<std::vector<double>>();
}

GraphRecord graph_of(const json& data) {
  GraphRecord graph;
  graph.name = data.value("name", "");
  for (const json& input : data.at("inputs")) {
    if (input.is_string())
      graph.inputs.push_back({input.get<std::string>(), {}});
    else
      graph.inputs.push_back({input[0].get<std::string>(), type_of(input[1], input[2])});
  }
  if (data.contains("initialisers"))
    for (const auto& [name, type] : data["initialisers"].items()) {
      GraphRecord::Initialiser& added = graph.initialisers.emplace_back();
      added.name = name;
      added.is_variable = true;
      added.fed = type_of(type[0], type[1]);
    }
  for (const json& node : data.at("nodes")) {
    NodeRecord& made = graph.nodes.emplace_back();
    made.domain = node.at("domain");
    made.type = node.at("type");
    made.name = node.at("name");
    made.operands = node.at("operands").get<std::vector<std::string>>();
    made.results = node.at("results").get<std::vector<std::string>>();
    if (node.contains("attributes"))
      for (const auto& [name, value] : node["attributes"].items())
        if (!value.is_null()) made.attributes.set(name, attribute_of(value));
    if (node.contains("subgraphs"))
      for (const auto& [name, value] : node["subgraphs"].items())
        made.subgraphs.emplace(name, graph_of(value));
  }
  graph.outputs = data.at("outputs").get<std::vector<std::string>>();
  return graph;
}

ModelRecord read_unit(const std::filesystem::path& file) {
  const json unit = json::parse(std::ifstream(file)).at("unit");
  ModelRecord model;
  model.source = unit.at("source");
  model.dialect = "tensorflow";
  model.versions = {{"tf", 1}, {"ipu", 1}};
  model.graph = graph_of(unit.at("graph"));
  return model;
}

std::vector<std::filesystem::path> unit_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_tree() / "tests" / "tensorflow_records"))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(TensorflowRecords, recorded_units_are_imported) {
  const std::vector<std::filesystem::path> files = unit_files();
  ASSERT_GE(files.size(), 5u);
  for (const auto& file : files) {
    SCOPED_TRACE(file.filename().string());
    const std::unique_ptr<ir::Module> module = build_unit(read_unit(file));
    ops::verify(*module, ir::Form::kAuthored);
    EXPECT_NE(module->find_graph("main"), nullptr);
  }
}

}  // namespace
}  // namespace ipu::frontends::tensorflow
