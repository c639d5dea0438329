// Units of TensorFlow that were recorded are imported without TensorFlow; records that were broken give a unit or an Error, and
// nothing is read that is not there. IPU_FUZZ_ROUNDS, IPU_FUZZ_SECONDS (at least), IPU_FUZZ_SEED.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "frontends/tensorflow/unit.h"
#include "ir/module.h"
#include "ops/definition/importers.h"
#include "ops/verify.h"
#include "support/error.h"
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

// --- broken ones

uint64_t setting(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

class Breaker {
 public:
  explicit Breaker(uint64_t seed) : random_(seed) {}

  void break_something(ModelRecord& model) {
    std::vector<GraphRecord*> graphs;
    std::vector<std::string> names{"", "lost"};
    collect(model.graph, graphs, names);
    GraphRecord& graph = *graphs[below(graphs.size())];
    const std::string other = names[below(names.size())];
    if (graph.nodes.empty() || below(8) == 0) return break_graph(graph, other);
    NodeRecord& node = graph.nodes[below(graph.nodes.size())];
    switch (below(9)) {
      case 0:
        if (!node.operands.empty()) node.operands[below(node.operands.size())] = other;
        return;
      case 1:
        node.operands.resize(below(node.operands.size() + 2), other);
        return;
      case 2:
        node.results.resize(below(node.results.size() + 2), other);
        return;
      case 3:
        return node.attributes.set(attribute_name(node), strange());
      case 4:
        node.attributes.erase(attribute_name(node));
        return;
      case 5:
        graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(below(graph.nodes.size())));
        return;
      case 6: {
        const NodeRecord copy = graph.nodes[below(graph.nodes.size())];
        graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(below(graph.nodes.size() + 1)),
                           copy);
        return;
      }
      case 7:
        if (!node.subgraphs.empty()) {
          node.subgraphs.erase(node.subgraphs.begin());
        } else {
          std::swap(node.type, graph.nodes[below(graph.nodes.size())].type);
        }
        return;
      default:
        node.type = all_types()[below(all_types().size())];
    }
  }

  uint64_t below(uint64_t count) { return random_() % std::max<uint64_t>(count, 1); }

 private:
  static void collect(GraphRecord& graph, std::vector<GraphRecord*>& graphs,
                      std::vector<std::string>& names) {
    graphs.push_back(&graph);
    for (const GraphRecord::Input& input : graph.inputs) names.push_back(input.name);
    for (const GraphRecord::Initialiser& initialiser : graph.initialisers) names.push_back(initialiser.name);
    for (NodeRecord& node : graph.nodes) {
      names.insert(names.end(), node.results.begin(), node.results.end());
      for (auto& [name, inside] : node.subgraphs) collect(inside, graphs, names);
    }
  }

  static const std::vector<std::string>& all_types() {
    static const std::vector<std::string> kTypes = [] {
      std::vector<std::string> types;
      for (const ops::Importer* importer : ops::all_importers())
        if (importer->domain == ops::kTensorflow || importer->domain == ops::kIpu)
          types.push_back(importer->type);
      return types;
    }();
    return kTypes;
  }

  void break_graph(GraphRecord& graph, const std::string& other) {
    switch (below(5)) {
      case 0:
        graph.outputs.resize(below(graph.outputs.size() + 2), other);
        return;
      case 1:
        graph.inputs.push_back({other, {DType::kF32, {2}}});
        return;
      case 2:
        if (!graph.inputs.empty()) graph.inputs.erase(graph.inputs.begin());
        return;
      case 3:
        if (!graph.inputs.empty()) graph.inputs[below(graph.inputs.size())].type = type();
        return;
      default:
        if (!graph.initialisers.empty()) graph.initialisers[below(graph.initialisers.size())].fed = type();
    }
  }

  ir::Type type() {
    static constexpr DType kTypes[] = {DType::kF32,  DType::kF16, DType::kI32,
                                       DType::kBool, DType::kI64, DType::kU8};
    Shape shape;
    for (uint64_t rank = below(5); rank > 0; --rank) shape.push_back(static_cast<int64_t>(below(5)));
    return {kTypes[below(std::size(kTypes))], shape};
  }

  std::string attribute_name(const NodeRecord& node) {
    static const std::vector<std::string> kNames = {"n",      "maximum",  "loop",    "list",        "pushes",
                                                    "grows",  "branches", "strides", "padding",     "ksize",
                                                    "value",  "message",  "titles",  "data_format", "axis",
                                                    "shapes", "dtypes",   "queue",   "num",         "dtype"};
    std::vector<std::string> names;
    for (const auto& [name, value] : node.attributes) names.push_back(name);
    if (names.empty() || below(4) == 0) return kNames[below(kNames.size())];
    return names[below(names.size())];
  }

  ConstantPtr array() {
    static constexpr int64_t kNumbers[] = {0,    1,         2,         3,         -1,       -7,
                                           1000, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    const ir::Type made = type();
    std::vector<std::byte> bytes;
    for (int64_t i = 0; i < made.elements(); ++i) {
      const int64_t number = kNumbers[below(std::size(kNumbers))];
      std::vector<std::byte> one;
      if (made.dtype == DType::kBool)
        append(one, static_cast<uint8_t>(number & 1));
      else
        append(one, number);
      one.resize(static_cast<size_t>(size_in_bytes(made.dtype)));
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    return std::make_shared<ConstantData>(ConstantData{made.dtype, made.shape, std::move(bytes)});
  }

  Attribute strange() {
    switch (below(12)) {
      case 0:
        return int64_t{0};
      case 1:
        return int64_t{-1};
      case 2:
        return int64_t{1} << below(63);
      case 3:
        return 1.5;
      case 4:
        return std::string();
      case 5:
        return std::string("NCHW");
      case 6:
        return below(2) == 0;
      case 7:
        return std::vector<int64_t>(below(7), static_cast<int64_t>(below(4)) - 1);
      case 8:
        return std::vector<int64_t>{1, int64_t{1} << 40, -1, INT64_MIN};
      case 9:
        return std::vector<std::string>(below(4), "a");
      case 10:
        return std::vector<double>{0.0, -1.0};
      default:
        return array();
    }
  }

  std::mt19937_64 random_;
};

// Whether the unit is imported; else it is refused, if need be by a check of ours. Sanitizers look for what neither notices.
bool is_imported(const ModelRecord& model) {
  try {
    build_unit(model);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

TEST(TensorflowRecordsFuzz, broken_units_are_imported_or_refused) {
  std::vector<ModelRecord> models;
  for (const auto& file : unit_files()) models.push_back(read_unit(file));
  const uint64_t seed = setting("IPU_FUZZ_SEED", 33), rounds = setting("IPU_FUZZ_ROUNDS", 150);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(setting("IPU_FUZZ_SECONDS", 0));
  uint64_t imported = 0, round = 0;
  for (; round < rounds || std::chrono::steady_clock::now() < end; ++round) {
    SCOPED_TRACE(fmt::format("IPU_FUZZ_SEED={} (from round {})", seed + round, round));
    Breaker breaker(seed + round);
    ModelRecord model = models[breaker.below(models.size())];
    for (uint64_t i = 1 + breaker.below(3); i > 0; --i) breaker.break_something(model);
    imported += is_imported(model);
    if (HasFailure()) return;
  }
  EXPECT_GT(imported, 0u);
  EXPECT_LT(imported, round);
}

}  // namespace
}  // namespace ipu::frontends::tensorflow
