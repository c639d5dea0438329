#include "frontends/records/import.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <set>

#include "frontends/records/fold.h"
#include "frontends/records/node_order.h"
#include "frontends/records/record_call.h"
#include "frontends/records/subgraphs.h"
#include "frontends/records/unsupported.h"
#include "ir/node_marks.h"
#include "ops/definition/importers.h"
#include "ops/folding/exact_tensor.h"
#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::frontends::records {
namespace {

class ModelImporter {
 public:
  // `written`: initialisers that nodes give new values.
  ModelImporter(const ModelRecord& model, const std::set<std::string>& written, Notes& notes,
                Imported& imported)
      : model_(model),
        written_(written),
        imported_(imported),
        graph_(imported.module->add_graph("forward")),
        builder_(graph_),
        values_(graph_, &imported.forward) {
    imported.forward.graph = graph_;
    state_.graph = graph_;
    state_.forward = &imported.forward;
    state_.is_popart = model.dialect == "popart";
    state_.is_ordered = model.dialect == "tensorflow";
    state_.gradients = model.gradients;
    state_.notes = &notes;
    state_.import_body = [this](const GraphRecord& record, const std::vector<ir::Type>& inputs) {
      return import_body(record, inputs);
    };
  }

  // Returns the initialisers that nodes give new values and `written` does not name; nothing is finished then.
  const std::set<std::string>& run(const std::string& loss, int64_t replicas) {
    state_.replicas = replicas;
    state_.is_training = !loss.empty();
    loss_ = loss;
    for (const GraphRecord::Input& input : model_.graph.inputs) {
      values_.add_input(input);
      std::string& stream = imported_.forward.inputs.back().name;
      if (state_.is_ordered) stream = fmt::format("in:{}", imported_.forward.inputs.size() - 1);
      streams_.insert(stream);
    }
    for (const GraphRecord::Initialiser& initialiser : model_.graph.initialisers)
      values_.add_initialiser(initialiser, written_.contains(initialiser.name));
    check_order(model_.graph);
    for (const NodeRecord& node : model_.graph.nodes) import_node(node);
    for (const Notes::Lack& lack : state_.notes->lacking)
      unsupported_.add(*lack.node, lack.version, lack.why);
    if (!unsupported_.empty()) unsupported_.raise(model_.source, !state_.is_ordered);
    if (!values_.written_constants().empty()) return values_.written_constants();
    builder_.settings = {};
    builder_.location = nullptr;
    builder_.origin = nullptr;
    for (const std::string& name : model_.graph.outputs) add_output(name);
    if (state_.is_ordered) values_.write_assigned();
    values_.append_state_outputs();
    const Known* found = loss.empty() ? nullptr : values_.find(loss);
    if (found != nullptr && found->value != nullptr && found->value->producer() != nullptr)
      imported_.loss = found->value;
    name_values(erase_unused(*graph_, imported_.loss));
    return values_.written_constants();
  }

 private:
  int version_of(const NodeRecord& node) const {
    if (node.version != 0) return node.version;
    const std::string domain(ops::canonical_domain(node.domain));
    for (const auto& [name, version] : model_.versions)
      if (ops::canonical_domain(name) == domain) return version;
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("missing version: {} does not say which version of domain '{}' it uses, which {} needs.",
                    quotation(model_.source), quotation(domain), node_name(node)));
  }

  // Why there is no importer: other versions are known, or none is.
  static std::string why_missing(const NodeRecord& node) {
    std::string known;
    for (const ops::Importer* importer : ops::importers_of(node.domain, node.type)) {
      if (!std::holds_alternative<ops::NodeImporter>(importer->import)) continue;
      const ops::VersionRange& range = importer->versions;
      known += fmt::format("{}{} to {}", known.empty() ? "" : ", ", range.since, range.until);
    }
    return known.empty() ? kNoImporter : "the versions that can be imported are " + known;
  }

  void import_node(const NodeRecord& node) {
    const int version = version_of(node);
    const ops::Importer* importer = ops::find_importer(node.domain, node.type, version);
    const auto* import = importer == nullptr ? nullptr : std::get_if<ops::NodeImporter>(&importer->import);
    bool is_known = true;
    for (const std::string& name : node.operands)
      if (!name.empty()) is_known = is_known && !values_.find(name)->is_missing;
    for (const auto& [name, graph] : node.subgraphs)
      for (const std::string& read : names_read_outside(graph)) {
        const Known* known = values_.find(read);
        is_known = is_known && (known == nullptr || !known->is_missing);
      }
    if (import == nullptr) {
      unsupported_.add(node, version, why_missing(node));
    } else if (!is_known) {
      unsupported_.add_skipped();
    } else if (import_with(*import, node, version)) {
      return;
    }
    Known missing;
    missing.is_missing = true;
    for (const std::string& name : node.results)
      if (!name.empty()) values_.add(name, missing);
  }

  bool import_with(const ops::NodeImporter& import, const NodeRecord& node, int version) {
    stand_at(node, version);
    RecordCall call(builder_, node, version, values_, state_);
    const ir::Op* last = graph_->ops().empty() ? nullptr : graph_->ops().back().get();
    const Operands operands = operands_of(node);
    std::vector<ConstantPtr> folded;
    try {
      if (operands.are_constants) folded = fold_node(node, version, &import, values_, state_);
      // Ops that the device computes as the model says stay for whoever reads the value; passes fold them.
      if (folded.empty() || operands.any_variable || !(operands.any_wide || any_wide(folded))) {
        import(call);
        call.check_complete();
      }
    } catch (Error& error) {
      const std::string where = described(node, version);
      if (error.code() != ErrorCode::kUnsupportedOps) {
        if (error.text().find(where) == std::string::npos)
          error.add(fmt::format("\n  from: {} in {}", where, quotation(model_.source)));
        if (const std::string line = ir::user_line(node.location);
            !line.empty() && error.text().find(line) == std::string::npos)
          error.add(fmt::format("\n  at:   {}", line)).at(line);
        throw;
      }
      const std::string prefix = "unsupported operation: " + where + ": ";
      std::string text = error.text();
      if (text.starts_with(prefix)) text = text.substr(prefix.size());
      if (text.ends_with('.')) text.pop_back();
      unsupported_.add(node, version, text);
      return false;
    }
    std::vector<Known> results = call.results();
    for (size_t i = 0; i < folded.size(); ++i) results[i].constant = folded[i];
    if (operands.are_constants && folded.empty()) {
      fold_results(*graph_, last, operands.given, results);
      for (Known& result : results) widen(node, result);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string& name = node.results[i];
      if (name.empty()) continue;
      results[i].is_variable = operands.any_variable && results[i].constant != nullptr;
      name_value(results[i].value, name);
      values_.add(name, results[i]);
    }
    return true;
  }

  struct Operands {
    bool are_constants = false, any_variable = false, any_wide = false;
    GivenValues given;  // those that are values too
  };

  static bool any_wide(const std::vector<ConstantPtr>& constants) {
    return std::any_of(constants.begin(), constants.end(), [](const ConstantPtr& constant) {
      return constant != nullptr && is_wide(constant->dtype);
    });
  }

  Operands operands_of(const NodeRecord& node) {
    Operands operands;
    for (const std::string& name : node.operands) {
      if (name.empty()) continue;
      const Known& known = *values_.find(name);
      if (known.constant == nullptr) return {};
      operands.any_variable = operands.any_variable || known.is_variable;
      operands.any_wide = operands.any_wide || is_wide(known.constant->dtype);
      if (known.value != nullptr && fits_device(*known.constant))
        operands.given.emplace_back(known.value, device_constant(known.constant, name));
    }
    operands.are_constants = !node.operands.empty();
    return operands;
  }

  // A constant that was computed in a type of the device has the type of the model again.
  void widen(const NodeRecord& node, Known& result) {
    if (result.constant == nullptr) return;
    bool has_narrow = false, has_wide = node.type == "ArgMax" || node.type == "ArgMin";
    const DType narrow = result.constant->dtype;
    const DType wide = narrow == DType::kI32 ? DType::kI64 : narrow == DType::kF32 ? DType::kF64 : narrow;
    for (const std::string& name : node.operands) {
      if (name.empty()) continue;
      const DType dtype = values_.find(name)->constant->dtype;
      has_narrow = has_narrow || dtype == narrow;
      has_wide = has_wide || dtype == wide;
    }
    if (wide != narrow && has_wide && (!has_narrow || node.operands.size() == 1))
      result.constant = converted(ops::ExactTensor::of(*result.constant), wide).to_constant();
  }

  // The nodes of a body go to a graph of its own, whose names are those of the body.
  ops::ImportedBody import_body(const GraphRecord& record, const std::vector<ir::Type>& inputs) {
    ops::ImportedBody body;
    body.graph = builder_.module()->add_graph(record.name.empty() ? "body" : record.name);
    ValueTable values(body.graph, nullptr);
    open_body(record, inputs, model_.source, values_, builder_, values, body);
    ir::Builder builder(body.graph);
    builder.settings = builder_.settings;
    builder.location = builder_.location;
    builder.origin = builder_.origin;
    const ModelState around = state_;
    const auto change_places = [&] {
      std::swap(values_, values);
      std::swap(builder_, builder);
      std::swap(graph_, body.graph);
    };
    change_places();
    state_.graph = graph_;
    state_.in_body = true;
    state_.seed = nullptr;
    try {
      for (const NodeRecord& node : record.nodes) import_node(node);
      close_body(record, values_, builder_, body);
    } catch (...) {
      change_places();
      state_ = around;
      throw;
    }
    erase_unused(*graph_, nullptr);
    if (state_.seed != nullptr) body.seed = static_cast<int>(body.captured.size());
    const int64_t streams = state_.streams;
    change_places();
    state_ = around;
    state_.streams = streams;
    return body;
  }

  // The value goes by the model's name, unless it is another's: Identity gives its operand.
  void name_value(ir::Value* value, const std::string& name) {
    if (value == nullptr || value->producer() == nullptr || !named_.insert(value).second) return;
    if (value->name() != name) graph_->rename(value, name);
  }

  void stand_at(const NodeRecord& node, int version) {
    builder_.settings = node.settings;
    builder_.location = node.location;
    if (builder_.location == nullptr)
      builder_.location = std::make_shared<ir::LocationData>(ir::LocationData{model_.source, 0, node.name});
    ir::Origin origin{std::string(ops::canonical_domain(node.domain)), node.type, version, {}};
    for (const auto& [name, value] : node.attributes)
      if (!std::holds_alternative<ConstantPtr>(value)) origin.attributes.set(name, value);
    if (state_.is_popart) mark(node, origin.attributes);
    builder_.origin = std::make_shared<ir::Origin>(std::move(origin));
  }

  void mark(const NodeRecord& node, Attributes& attributes) const {
    const auto named =
        std::find_if(node.results.begin(), node.results.end(), std::not_fn(&std::string::empty));
    if (named != node.results.end()) attributes.set(ir::kOriginNode, *named);
    const bool has_loss = std::find(node.results.begin(), node.results.end(), loss_) != node.results.end();
    if (!loss_.empty() && has_loss) attributes.set(ir::kOriginLoss, true);
  }

  // Inputs and outputs are streams, which go by their names.
  void check_stream(const std::string& name) {
    if (streams_.insert(name).second) return;
    const bool is_input = std::any_of(model_.graph.inputs.begin(), model_.graph.inputs.end(),
                                      [&](const GraphRecord::Input& input) { return input.name == name; });
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("duplicate name: '{}' is an output of {} and {}. Give each output a name of its own, for "
                    "example with Identity.",
                    quotation(name), quotation(model_.source), is_input ? "an input" : "another output"));
  }

  void add_output(const std::string& name) {
    Known* known = values_.find(name);
    if (known == nullptr)
      throw Error(ErrorCode::kTypeMismatch, fmt::format("unknown output: nothing in {} is called '{}'.",
                                                        quotation(model_.source), quotation(name)));
    const size_t number = imported_.forward.outputs.size();
    const std::string stream =
        state_.is_ordered ? fmt::format("out:{}", number) : model_.graph.output_prefix + name;
    check_stream(stream);
    ir::Value* value = values_.value(builder_, name, *known);
    graph_->append_output(value);
    ForwardGraph::Output& output = imported_.forward.outputs.emplace_back();
    output.name = stream;
    output.host_dtype = host_type(number, value->type().dtype);
  }

  DType host_type(size_t output, DType device) const {
    const std::vector<DType>& types = model_.graph.output_types;
    if (types.empty()) return device;
    if (output >= types.size() || device_dtype(types[output]) != device)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("type mismatch: output {} of {} is {} and the records give {} output types{}.",
                              output, quotation(model_.source), to_string(device), types.size(),
                              output < types.size()
                                  ? fmt::format(", of which this one is {}", to_string(types[output]))
                                  : ""));
    return types[output];
  }

  void name_values(const std::unordered_map<const ir::Value*, ir::Type>& gone) {
    std::set<const ir::Value*> left(graph_->inputs().begin(), graph_->inputs().end());
    for (const auto& op : graph_->ops())
      for (int i = 0; i < op->result_count(); ++i) left.insert(op->result(i));
    for (const auto& [name, known] : values_.all()) {
      if (known.constant != nullptr && !known.is_variable) imported_.constants[name] = known.constant;
      if (left.contains(known.value)) {
        imported_.values[name] = known.value;
      } else if (const auto at = gone.find(known.value); at != gone.end()) {
        imported_.gone[name] = at->second;
      }
    }
  }

  const ModelRecord& model_;
  const std::set<std::string>& written_;
  Imported& imported_;
  ir::Graph* graph_;
  ir::Builder builder_;
  ValueTable values_;
  ModelState state_;
  UnsupportedNodes unsupported_;
  std::set<const ir::Value*> named_;
  std::set<std::string> streams_;
  std::string loss_;
};

}  // namespace

Imported import_model(const ModelRecord& model, const std::string& loss, int64_t replicas) {
  // An initialiser that some node writes is a variable for the nodes before that one too: it is known when all
  // are imported, and then all are once more.
  std::set<std::string> written;
  Notes notes;
  while (true) {
    Imported imported;
    imported.module = std::make_unique<ir::Module>();
    notes.begin_import();
    ModelImporter importer(model, written, notes, imported);
    try {
      const std::set<std::string>& more = importer.run(loss, replicas);
      if (more.empty() && !notes.has_news()) return imported;
      written.insert(more.begin(), more.end());
    } catch (const Error&) {
      if (!notes.has_news()) throw;
    }
  }
}

}  // namespace ipu::frontends::records
