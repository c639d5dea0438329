// The listed program as text: JSON for programs, blocks of lines for the log.
#include <nlohmann/json.hpp>
#include <set>

#include "frontends/torch/executor/back_end_form.h"
#include "support/interruption.h"

namespace ipu::frontends::torch_frontend {
namespace {

using Json = nlohmann::ordered_json;

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (const int64_t size : shape) {
    if (text.size() > 1) text += ' ';
    text += std::to_string(size);
  }
  text += ']';
  return text;
}

Json json_of(const BackEndOperation& op) {
  Json made{{"type", op.type}, {"name", op.name}, {"inputs", Json::array()}, {"outputs", Json::array()}};
  for (const BackEndTensor& t : op.inputs)
    made["inputs"].push_back({{"name", t.name},
                              {"shape", shape_text(t.shape)},
                              {"type", t.dtype},
                              {"index", std::to_string(made["inputs"].size())}});
  for (const BackEndTensor& t : op.outputs)
    made["outputs"].push_back({{"name", t.name}, {"index", std::to_string(made["outputs"].size())}});
  made["attributes"] = Json::object();
  for (const auto& [name, text] : op.attributes) made["attributes"][name] = text;
  return made;
}

// One operation at a time, so that Ctrl-C is answered. Names are the user's: bytes that are no UTF-8 are replaced.
void print(const std::vector<BackEndOperation>& operations, std::string& text) {
  text += '[';
  for (const BackEndOperation& op : operations) {
    poll_interruption();
    if (text.back() != '[') text += ',';
    text += json_of(op).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  text += ']';
}

}  // namespace

std::string BackEndForm::json() const {
  std::string text = "{\"maingraph\":";
  print(operations, text);
  for (const auto& [name, list] : bodies) {
    text += ',' + Json(name).dump(-1, ' ', false, Json::error_handler_t::replace) + ':';
    print(list, text);
  }
  return text + '}';
}

std::vector<uint8_t> BackEndForm::debug_info() const {
  Json listed = Json::array();
  for (const BackEndOperation& op : operations) {
    poll_interruption();
    Json made{{"name", op.name}, {"type", op.type}};
    if (op.location != nullptr) {
      made["layer"] = op.location->module_path;
      made["file"] = op.location->file;
      made["line"] = op.location->line;
    }
    listed.push_back(std::move(made));
  }
  return Json::to_cbor(Json{{"operations", std::move(listed)}});
}

std::vector<std::string> BackEndForm::dump() const {
  static const std::set<std::string> kOwn{"MultiConv",      "ScatterReduce", "Nll",       "L1",
                                          "IdentityLoss",   "PrintTensor",   "IpuCopy",   "Stash",
                                          "RestoreInplace", "HostLoad",      "HostStore", "IoTileCopy"};
  std::vector<std::string> blocks;
  for (size_t number = 0; number < operations.size(); ++number) {
    const BackEndOperation& op = operations[number];
    const bool own = kOwn.contains(op.type) || op.type.ends_with("VarUpdate") || op.type.ends_with("Grad") ||
                     op.type.ends_with("Updater");
    std::string text = "\n\nOp \"" + op.name + "\", " + std::to_string(number) + " of type " +
                       (own ? "ai.graphcore." : "ai.onnx.") + op.type + ":1\n    inputs";
    for (const BackEndTensor& t : op.inputs)
      text += "\n        " + t.name + " " + shape_text(t.shape) + " " + t.dtype;
    text += "\n    outputs";
    for (const BackEndTensor& t : op.outputs)
      text += "\n        " + t.name + " " + shape_text(t.shape) + " " + t.dtype;
    text += "\n    attributes";
    for (const auto& [name, value] : op.attributes) text += "\n        " + name + ": " + value;
    blocks.push_back(std::move(text));
  }
  return blocks;
}

}  // namespace ipu::frontends::torch_frontend
