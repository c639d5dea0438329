// A node record as an importer sees it (ops::NodeImportCall), and what the importer made of it.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "frontends/records/value_table.h"
#include "ops/definition/node_import_call.h"

namespace ipu::frontends::records {

// What was found out in an import, and what it lacked (ops::NodeImportCall::noted).
class Notes {
 public:
  void begin_import() {
    missed_.clear();
    lacking.clear();
  }
  const std::vector<int64_t>* find(const std::string& what) {
    const auto at = values_.find(what);
    if (at != values_.end()) return &at->second;
    missed_.insert(what);
    return nullptr;
  }
  void add(const std::string& what, std::vector<int64_t> value) { values_.emplace(what, std::move(value)); }
  // Whether something that was missed is known now.
  bool has_news() const {
    return std::any_of(missed_.begin(), missed_.end(),
                       [&](const auto& what) { return values_.contains(what); });
  }
  struct Lack {
    const NodeRecord* node;
    int version;
    std::string why;
  };
  std::vector<Lack> lacking;

 private:
  std::map<std::string, std::vector<int64_t>> values_;
  std::set<std::string> missed_;
};

// What the nodes of one model share: what random operators draw from (the input is made at first use), and what
// the program is for.
struct ModelState {
  bool is_training = false, is_popart = false;
  bool is_ordered = false;             // nodes read of initialisers what nodes before them assigned
  std::vector<std::string> gradients;  // names of values whose gradients the host is to see
  ir::Graph* graph = nullptr;
  ForwardGraph* forward = nullptr;
  ir::Value* seed = nullptr;
  int64_t streams = 0;
  int64_t replicas = 1;
  bool in_body = false;  // `graph` is that of a body: its seed is an input that the node hands on
  std::function<ops::ImportedBody(const GraphRecord&, const std::vector<ir::Type>&)> import_body;
  Notes* notes = nullptr;
};

class RecordCall final : public ops::NodeImportCall {
 public:
  RecordCall(ir::Builder& builder, const NodeRecord& node, int version, ValueTable& values,
             ModelState& state);

  std::string described() const override { return records::described(node_, version_); }
  ir::Builder& builder() override { return builder_; }
  int version() const override { return version_; }
  bool is_training() const override { return state_.is_training; }
  bool is_popart() const override { return state_.is_popart; }

  int64_t replicas() const override { return state_.replicas; }

  bool has(std::string_view name) override;
  double real(std::string_view name) override;
  bool boolean(std::string_view name) override;
  std::string text(std::string_view name) override;
  int64_t wide_integer(std::string_view name) override;
  std::vector<int64_t> wide_integers(std::string_view name) override;
  std::vector<double> reals(std::string_view name) override;
  std::vector<std::string> texts(std::string_view name) override;
  ConstantPtr tensor(std::string_view name) override;

  int operand_count() override;
  bool has_operand(int i) override;
  ir::Value* operand(int i) override;
  ConstantPtr constant(int i) override;
  bool is_variable(int i) override { return known_operand(i).is_variable; }
  std::string operand_name(int i) override;
  bool is_initialiser(int i) override { return known_operand(i).is_initialiser; }
  bool shows_gradient(int i) override;

  int result_count() override { return static_cast<int>(node_.results.size()); }
  bool has_result(int i) override;
  void set_result(int i, ir::Value* value) override;
  void set_constant(int i, ConstantPtr value) override;
  void write(int operand, ir::Value* value) override;
  void assign(int operand, ir::Value* value) override;
  void assign_captured(const ops::ImportedBody& body, int i, ir::Value* value) override;
  int body_inputs(std::string_view name) override;
  ops::ImportedBody body(std::string_view name, const std::vector<ir::Type>& inputs) override;
  const std::vector<int64_t>* noted(const std::string& what) override { return state_.notes->find(what); }
  void note(const std::string& what, std::vector<int64_t> value) override {
    state_.notes->add(what, std::move(value));
  }
  void unsupported_at_the_end(const std::string& what) override {
    state_.notes->lacking.push_back({&node_, version_, what});
  }
  ir::Value* seed() override;
  int64_t next_stream() override { return state_.streams++; }

  // After the importer: Error(kTypeMismatch) for operands it never asked for, Error(kUnsupportedOps) for such
  // attributes and for results that it did not give.
  void check_complete();
  const std::vector<Known>& results() const { return results_; }

 private:
  const Attribute& attribute(std::string_view name);
  [[noreturn]] void wrong_kind(std::string_view name, const char* wanted) const;
  Known& known_operand(int i);

  ir::Builder& builder_;
  const NodeRecord& node_;
  int version_;
  ValueTable& values_;
  ModelState& state_;
  std::set<std::string, std::less<>> read_;  // attributes and graphs
  int last_asked_ = -1;                      // operands up to this one were asked for
  std::vector<Known> results_;
};

}  // namespace ipu::frontends::records
