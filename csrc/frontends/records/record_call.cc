#include "frontends/records/record_call.h"

#include <fmt/core.h>

#include <algorithm>

#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::frontends::records {

RecordCall::RecordCall(ir::Builder& builder, const NodeRecord& node, int version, ValueTable& values,
                       ModelState& state)
    : builder_(builder),
      node_(node),
      version_(version),
      values_(values),
      state_(state),
      results_(node.results.size()) {}

// --- attributes

bool RecordCall::has(std::string_view name) {
  read_.emplace(name);
  return node_.attributes.has(name);
}

const Attribute& RecordCall::attribute(std::string_view name) {
  read_.emplace(name);
  const Attribute* value = node_.attributes.find(name);
  if (value == nullptr)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("missing attribute: {} needs '{}'.", described(), name));
  return *value;
}

void RecordCall::wrong_kind(std::string_view name, const char* wanted) const {
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("attribute type mismatch: '{}' of {} must be {}.", name, described(), wanted));
}

double RecordCall::real(std::string_view name) {
  const Attribute& value = attribute(name);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  wrong_kind(name, "a real number");
}

bool RecordCall::boolean(std::string_view name) {
  const Attribute& value = attribute(name);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  const auto* whole = std::get_if<int64_t>(&value);
  if (whole == nullptr || *whole < 0 || *whole > 1) wrong_kind(name, "0 or 1");
  return *whole == 1;
}

std::string RecordCall::text(std::string_view name) {
  const auto* text = std::get_if<std::string>(&attribute(name));
  if (text == nullptr) wrong_kind(name, "a string");
  return *text;
}

int64_t RecordCall::wide_integer(std::string_view name) {
  const Attribute& value = attribute(name);
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  wrong_kind(name, "an integer");
}

std::vector<int64_t> RecordCall::wide_integers(std::string_view name) {
  const auto* list = std::get_if<std::vector<int64_t>>(&attribute(name));
  if (list == nullptr) wrong_kind(name, "a list of integers");
  return *list;
}

std::vector<double> RecordCall::reals(std::string_view name) {
  const Attribute& value = attribute(name);
  if (const auto* list = std::get_if<std::vector<double>>(&value)) return *list;
  if (const auto* whole = std::get_if<std::vector<int64_t>>(&value)) return {whole->begin(), whole->end()};
  wrong_kind(name, "a list of real numbers");
}

std::vector<std::string> RecordCall::texts(std::string_view name) {
  const Attribute& value = attribute(name);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return *list;
  const auto* none = std::get_if<std::vector<int64_t>>(&value);  // an empty list has no type
  if (none == nullptr || !none->empty()) wrong_kind(name, "a list of strings");
  return {};
}

ConstantPtr RecordCall::tensor(std::string_view name) {
  const auto* data = std::get_if<ConstantPtr>(&attribute(name));
  if (data == nullptr) wrong_kind(name, "a tensor");
  return *data;
}

// --- operands

int RecordCall::operand_count() {
  size_t count = node_.operands.size();
  while (count > 0 && node_.operands[count - 1].empty()) --count;
  last_asked_ = static_cast<int>(count) - 1;
  return static_cast<int>(count);
}

bool RecordCall::has_operand(int i) {
  last_asked_ = std::max(last_asked_, i);
  return i < static_cast<int>(node_.operands.size()) && !node_.operands[static_cast<size_t>(i)].empty();
}

Known& RecordCall::known_operand(int i) {
  if (!has_operand(i))
    throw Error(ErrorCode::kTypeMismatch, fmt::format("missing operand: {} needs operand {}; it has {}.",
                                                      described(), i, node_.operands.size()));
  return *values_.find(node_.operands[static_cast<size_t>(i)]);
}

ir::Value* RecordCall::operand(int i) {
  Known& known = known_operand(i);
  return values_.value(builder_, node_.operands[static_cast<size_t>(i)], known);
}

ConstantPtr RecordCall::constant(int i) { return known_operand(i).constant; }

std::string RecordCall::operand_name(int i) {
  known_operand(i);
  return node_.operands[static_cast<size_t>(i)];
}

// Values that several names have count by any of them.
bool RecordCall::shows_gradient(int i) {
  const ir::Value* value = operand(i);
  return !state_.in_body &&
         std::any_of(state_.gradients.begin(), state_.gradients.end(), [&](const std::string& name) {
           const Known* known = values_.find(name);
           return known != nullptr && known->value == value;
         });
}

// --- results

bool RecordCall::has_result(int i) {
  return i < result_count() && !node_.results[static_cast<size_t>(i)].empty();
}

void RecordCall::set_result(int i, ir::Value* value) {
  if (has_result(i)) results_[static_cast<size_t>(i)].value = value;
}

void RecordCall::set_constant(int i, ConstantPtr value) {
  if (has_result(i)) results_[static_cast<size_t>(i)].constant = std::move(value);
}

void RecordCall::assign(int operand, ir::Value* value) {
  if (!known_operand(operand).is_initialiser)
    unsupported(fmt::format("operand {} is written and must be an initialiser", operand));
  if (state_.is_ordered) {
    Known& known = known_operand(operand);
    const ir::Type& type = known.value->type();
    if (value->type() != type)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("type mismatch: {} assigns {} to variable '{}', which is {}.", described(),
                              to_string(value->type()), quotation(operand_name(operand)), to_string(type)));
    known.value = value;
    return;
  }
  if (state_.in_body)
    unsupported(fmt::format("operand {} is written, which cannot be inside a graph of a node", operand));
  values_.write(node_.operands[static_cast<size_t>(operand)], value);
}

void RecordCall::assign_captured(const ops::ImportedBody& body, int i, ir::Value* value) {
  values_.find(body.names[static_cast<size_t>(i)])->value = value;
}

void RecordCall::write(int operand, ir::Value* value) {
  if (state_.is_training) return assign(operand, value);
  if (!known_operand(operand).is_initialiser)
    unsupported(fmt::format("operand {} is written and must be an initialiser", operand));
}

int RecordCall::body_inputs(std::string_view name) {
  const auto at = node_.subgraphs.find(std::string(name));
  return at == node_.subgraphs.end() ? 0 : static_cast<int>(at->second.inputs.size());
}

ops::ImportedBody RecordCall::body(std::string_view name, const std::vector<ir::Type>& inputs) {
  read_.emplace(name);
  const auto at = node_.subgraphs.find(std::string(name));
  if (at == node_.subgraphs.end())
    throw Error(ErrorCode::kTypeMismatch, fmt::format("missing graph: {} needs '{}'.", described(), name));
  if (at->second.inputs.size() != inputs.size())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("wrong number of inputs: graph '{}' of {} declares {} and is given {}.", name,
                            described(), at->second.inputs.size(), inputs.size()));
  ops::ImportedBody body = state_.import_body(at->second, inputs);
  if (body.seed >= 0) {
    body.captured.push_back(seed());
    body.names.emplace_back();
  }
  return body;
}

ir::Value* RecordCall::seed() {
  if (state_.seed == nullptr) {
    state_.seed = state_.graph->add_input({DType::kU32, {2}}, "seed");
    if (state_.in_body) return state_.seed;
    ForwardGraph::Input& input = state_.forward->inputs.emplace_back();
    input.kind = ForwardGraph::Input::Kind::kSeed;
    input.name = "seed";
    input.host_dtype = DType::kU32;
  }
  return state_.seed;
}

void RecordCall::check_complete() {
  const int asked = last_asked_ + 1, given = operand_count();
  if (given > asked)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("too many operands: {} has {}; it takes {}.", described(), given, asked));
  for (const auto& [name, value] : node_.attributes)
    if (!read_.contains(name)) unsupported(fmt::format("attribute '{}'", quotation(name)));
  for (const auto& [name, graph] : node_.subgraphs)
    if (!read_.contains(name)) unsupported(fmt::format("subgraph '{}'", quotation(name)));
  for (int i = 0; i < result_count(); ++i)
    if (has_result(i) && results_[static_cast<size_t>(i)].value == nullptr &&
        results_[static_cast<size_t>(i)].constant == nullptr)
      unsupported(fmt::format("result {}, '{}'", i, quotation(node_.results[static_cast<size_t>(i)])));
}

}  // namespace ipu::frontends::records
