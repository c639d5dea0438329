// Prints modules as text that parses back to the same module (docs/ir.md). One op per line.
// Fields equal to their default are left out; attributes come sorted by name, so equal modules print equal
// text.
#include <fmt/core.h>

#include <unordered_map>

#include "ir/text/field_list.h"
#include "ir/text/lexer.h"
#include "ir/text/literal.h"
#include "ir/text/text.h"
#include "support/interruption.h"

namespace ipu::ir {
namespace {

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}
  std::string take() { return std::move(out_); }

  void module(const Module& module) {
    if (!module.attributes.empty()) {
      out_ += "module ";
      braces(module.attributes, {});
      out_ += "\n";
    }
    for (const RemoteBuffer& buffer : module.remote_buffers()) remote_buffer(buffer);
    for (const Variable& item : module.variables()) variable(item);
    for (const Stream& item : module.streams()) stream(item);
    for (const Ring& item : module.rings()) ring(item);
    for (const auto& [name, graph] : module.entry_points) {
      out_ += fmt::format("entry {} = ", is_plain_identifier(name) ? name : quoted(name));
      symbol(graph);
      out_ += "\n";
    }
    for (const auto& item : module.graphs()) {
      if (!out_.empty()) out_ += "\n";
      graph(*item);
    }
  }

  void graph(const Graph& graph) {
    label_targets(graph);
    out_ += "graph ";
    symbol(graph.name());
    out_ += "(";
    for (const Value* input : graph.inputs()) {
      if (input->index() > 0) out_ += ", ";
      value(input);
      out_ += ": " + to_string(input->type());
      Attributes marks;
      if (input->by_reference) marks.set("by_reference", true);
      if (input->ipu) marks.set("ipu", int64_t{*input->ipu});
      if (!marks.empty()) {
        out_ += " ";
        braces(marks, {});
      }
    }
    out_ += ") -> ";
    bool one = graph.outputs().size() == 1;
    if (!one) out_ += "(";
    for (size_t i = 0; i < graph.outputs().size(); ++i)
      out_ += (i ? ", " : "") + to_string(graph.outputs()[i]->type());
    if (!one) out_ += ")";
    if (!graph.attributes.empty()) {
      out_ += " attributes ";
      braces(graph.attributes, {});
    }
    out_ += " {\n";
    for (const auto& item : graph.ops()) {
      poll_interruption();
      out_ += "  ";
      op(*item);
      out_ += "\n";
    }
    out_ += "  return";
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      out_ += i ? ", " : " ";
      value(graph.outputs()[i]);
    }
    out_ += "\n}\n";
  }

  void op(const Op& op) {
    if (auto at = labels_.find(&op); at != labels_.end()) out_ += fmt::format("#{}: ", at->second);
    for (int i = 0; i < op.result_count(); ++i) {
      if (i) out_ += ", ";
      value(op.result(i));
    }
    if (op.result_count() > 0) out_ += " = ";
    kind(op.kind());
    out_ += "(";
    for (int i = 0; i < op.operand_count(); ++i) {
      if (i) out_ += ", ";
      op.operand(i) == nullptr ? void(out_ += "none") : value(op.operand(i));
    }
    out_ += ")";
    Attributes settings = to_attributes(op.settings);
    if (!op.attributes.empty() || !settings.empty()) {
      out_ += " ";
      braces(op.attributes, settings);
    }
    for (int i = 0; i < op.result_count(); ++i) out_ += (i ? ", " : " : ") + to_string(op.result(i)->type());
    if (options_.locations && op.location) location(*op.location);
    if (options_.origins && op.origin) origin(*op.origin);
    if (!op.after.empty()) {
      out_ += " after(";
      for (size_t i = 0; i < op.after.size(); ++i) {
        auto at = labels_.find(op.after[i]);
        out_ += i ? ", " : "";
        out_ += at != labels_.end() ? fmt::format("#{}", at->second) : op.after[i]->kind();
      }
      out_ += ")";
    }
  }

 private:
  // Only targets of order edges carry a label; numbered in the order of the text, so that reading back and
  // printing again gives the same labels.
  void label_targets(const Graph& graph) {
    labels_.clear();
    for (const auto& op : graph.ops())
      for (const Op* earlier : op->after) labels_.emplace(earlier, 0);
    if (labels_.empty()) return;
    int64_t next = 0;
    for (const auto& op : graph.ops())
      if (auto at = labels_.find(op.get()); at != labels_.end()) at->second = next++;
  }

  void value(const Value* value) {
    out_ += '%';
    out_ += is_plain_name(value->name()) ? value->name() : quoted(value->name());
  }
  void symbol(const std::string& name) {
    out_ += '@';
    out_ += is_plain_name(name) ? name : quoted(name);
  }
  void kind(const std::string& kind) {
    bool reserved = kind == "return" || kind == "loc" || kind == "origin" || kind == "after" ||
                    kind == "inf" || kind == "nan";
    out_ += is_plain_identifier(kind) && !reserved ? kind : quoted(kind);
  }
  void name(const std::string& name) {
    bool word = is_plain_identifier(name) && name != "inf" && name != "nan";
    out_ += word ? name : quoted(name);
  }

  void braces(const Attributes& attributes, const Attributes& settings) {
    out_ += "{";
    list(attributes);
    if (!settings.empty()) {
      out_ += attributes.empty() ? "| " : " | ";
      list(settings);
    }
    out_ += "}";
  }
  void list(const Attributes& attributes) {
    bool first = true;
    for (const auto& [key, item] : attributes) {
      if (!first) out_ += ", ";
      first = false;
      name(key);
      const bool* flag = std::get_if<bool>(&item);
      if (flag != nullptr && *flag) continue;  // {trans_a}
      out_ += "=";
      std::visit([this](const auto& x) { attribute(x); }, item);
    }
  }
  void attribute(bool x) { out_ += x ? "true" : "false"; }
  void attribute(int64_t x) { out_ += std::to_string(x); }
  void attribute(double x) { out_ += real_literal(x); }
  void attribute(const std::string& x) { out_ += quoted(x); }
  void attribute(DType x) { out_ += ipu::to_string(x); }
  void attribute(const Symbol& x) { symbol(x.name); }
  void attribute(const ConstantPtr& x) { out_ += dense_literal(*x, options_.max_constant_elements); }
  template <typename T>
  void attribute(const std::vector<T>& items) {
    // The kind of an empty list is not visible from its elements.
    if (items.empty() && !std::is_same_v<T, int64_t>)
      out_ += std::is_same_v<T, double> ? "reals" : std::is_same_v<T, std::string> ? "strings" : "symbols";
    out_ += "[";
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) out_ += ",";
      attribute(items[i]);
    }
    out_ += "]";
  }

  void location(const LocationData& where) {
    out_ += fmt::format(" loc({}:{}", quoted(where.file), where.line);
    if (!where.module_path.empty()) out_ += ", " + quoted(where.module_path);
    out_ += ")";
    for (const Location& other : where.joined) location(*other);
  }
  void origin(const Origin& origin) {
    out_ += fmt::format(" origin({}, {}", quoted(origin.domain), quoted(origin.type));
    if (origin.version != 0) out_ += fmt::format(", {}", origin.version);
    if (!origin.attributes.empty()) {
      out_ += ", ";
      braces(origin.attributes, {});
    }
    out_ += ")";
  }

  void row(std::string_view table, const std::string& name, const Type& type, const Attributes& fields) {
    out_ += table;
    out_ += " ";
    symbol(name);
    out_ += ": " + to_string(type);
    if (!fields.empty()) {
      out_ += " ";
      braces(fields, {});
    }
    out_ += "\n";
  }
  void variable(const Variable& v) {
    Attributes fields;
    if (v.ipu) fields.set("ipu", int64_t{*v.ipu});
    if (v.role != "parameter") fields.set("role", v.role);
    if (v.grouping.stride != 1) fields.set("group_stride", v.grouping.stride);
    if (v.grouping.size != 0) fields.set("group_size", v.grouping.size);
    if (!v.grouping.assignment.empty()) fields.set("group_assignment", v.grouping.assignment);
    if (v.retrieval != Retrieval::kOnePerGroup) fields.set("retrieval", std::string(kRetrievals[1]));
    if (!v.meta_shape.empty()) fields.set("meta_shape", v.meta_shape);
    if (v.shard_over != 1) fields.set("shard_over", v.shard_over);
    if (!v.remote_buffer.empty()) fields.set("remote_buffer", Symbol{v.remote_buffer});
    if (v.remote_entry != 0) fields.set("remote_entry", v.remote_entry);
    if (v.initial) fields.set("initial", v.initial);
    if (v.adopted) fields.set("adopted", true);
    row("variable", v.name, v.type, fields);
  }
  void stream(const Stream& s) {
    Attributes fields;
    if (s.direction == StreamDirection::kDeviceToHost) fields.set("direction", std::string(kDirections[1]));
    if (s.host_dtype != s.type.dtype) fields.set("host_dtype", s.host_dtype);
    if (s.mode != OutputMode::kAll)
      fields.set("mode", std::string(kOutputModes[static_cast<size_t>(s.mode)]));
    if (s.period != 1) fields.set("period", s.period);
    if (s.block != 1) fields.set("block", s.block);
    if (s.constant) fields.set("constant", true);
    if (s.ipu) fields.set("ipu", int64_t{*s.ipu});
    row("stream", s.name, s.type, fields);
  }
  void ring(const Ring& r) {
    Attributes fields;
    if (r.capacity != 1) fields.set("capacity", r.capacity);
    if (r.from_ipu != 0) fields.set("from", int64_t{r.from_ipu});
    if (r.to_ipu != 0) fields.set("to", int64_t{r.to_ipu});
    row("ring", r.name, r.type, fields);
  }
  void remote_buffer(const RemoteBuffer& b) {
    Attributes fields;
    if (b.entries != 1) fields.set("entries", b.entries);
    row("remote_buffer", b.name, b.type, fields);
  }

  const PrintOptions& options_;
  std::string out_;
  std::unordered_map<const Op*, int64_t> labels_;
};

}  // namespace

std::string print(const Module& module, const PrintOptions& options) {
  Printer printer(options);
  printer.module(module);
  return printer.take();
}

std::string print(const Graph& graph, const PrintOptions& options) {
  Printer printer(options);
  printer.graph(graph);
  return printer.take();
}

std::string print(const Op& op, const PrintOptions& options) {
  Printer printer(options);
  printer.op(op);
  return printer.take();
}

}  // namespace ipu::ir
