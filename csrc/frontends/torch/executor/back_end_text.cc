// The listed program as text: JSON, and blocks of lines for the log.
#include <set>

#include "frontends/torch/executor/back_end_form.h"
#include "support/interruption.h"

namespace ipu::frontends::torch_frontend {
namespace {

std::string shape_text(const Shape& shape) {
  std::string list = "[";
  for (const int64_t size : shape) list += (list.size() > 1 ? " " : "") + std::to_string(size);
  return list + "]";
}

std::string quoted(const std::string& text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      made += escape;
    } else {
      made += c;
    }
  }
  return made + "\"";
}

template <typename List, typename F>
std::string array(const List& list, F text) {
  std::string made = "[";
  size_t index = 0;
  for (const auto& entry : list) {
    if (index > 0) made += ",";
    made += text(entry, index++);
  }
  return made + "]";
}

std::string listed_operations(const std::vector<BackEndOperation>& operations) {
  return array(operations, [](const BackEndOperation& op, size_t) {
    poll_interruption();
    std::string made = "{\"type\":" + quoted(op.type) + ",\"name\":" + quoted(op.name) + ",\"inputs\":";
    made += array(op.inputs, [](const BackEndTensor& t, size_t i) {
      return "{\"name\":" + quoted(t.name) + ",\"shape\":" + quoted(shape_text(t.shape)) +
             ",\"type\":" + quoted(t.dtype) + ",\"index\":" + quoted(std::to_string(i)) + "}";
    });
    made += ",\"outputs\":" + array(op.outputs, [](const BackEndTensor& t, size_t i) {
              return "{\"name\":" + quoted(t.name) + ",\"index\":" + quoted(std::to_string(i)) + "}";
            });
    made += ",\"attributes\":{";
    bool first = true;
    for (const auto& [name, text] : op.attributes) {
      made += (first ? "" : ",") + quoted(name) + ":" + quoted(text);
      first = false;
    }
    return made + "}}";
  });
}

}  // namespace

std::string BackEndForm::json() const {
  std::string made = "{\"maingraph\":" + listed_operations(operations);
  for (const auto& [name, list] : bodies) made += "," + quoted(name) + ":" + listed_operations(list);
  return made + "}";
}

std::vector<std::string> BackEndForm::dump() const {
  static const std::set<std::string> kOwn{"MultiConv", "ScatterReduce", "Nll",
                                          "L1",        "IdentityLoss",  "PrintTensor",
                                          "IpuCopy",   "Stash",         "RestoreInplace"};
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
