// Reads the text form (docs/ir.md). Recursive descent without recursion: the grammar does not nest, so
// hostile text cannot exhaust the stack; every step takes a token, so time is linear in the text. Not here:
// what a legal module is (verifier.h) and the meaning of op kinds (ops/).
#include <fmt/core.h>

#include <charconv>
#include <unordered_map>

#include "ir/text/field_list.h"
#include "ir/text/lexer.h"
#include "ir/text/literal.h"
#include "ir/text/text.h"

namespace ipu::ir {
namespace {

class Parser {
 public:
  Parser(std::string_view text, std::string_view source_name, const ParseOptions& options)
      : lexer_(text, source_name, options.hashed_constants), module_(new Module) {}

  std::unique_ptr<Module> run() {
    while (lexer_.peek().kind != TokenKind::kEnd) {
      Token word = lexer_.peek();
      if (lexer_.accept_word("graph"))
        graph();
      else if (lexer_.accept_word("variable"))
        variable();
      else if (lexer_.accept_word("stream"))
        stream();
      else if (lexer_.accept_word("ring"))
        ring();
      else if (lexer_.accept_word("remote_buffer"))
        remote_buffer();
      else if (lexer_.accept_word("entry"))
        entry();
      else if (lexer_.accept_word("module"))
        module_header(word);
      else
        lexer_.fail_expected("'graph', 'module', 'variable', 'stream', 'ring', 'remote_buffer' or 'entry'");
    }
    return std::move(module_);
  }

 private:
  // --- tables

  void module_header(const Token& word) {
    if (!module_->attributes.empty()) lexer_.fail(word, "the module's attributes are given twice");
    lexer_.expect("{");
    module_->attributes = attributes_until_brace();
  }

  void entry() {
    Token token = lexer_.peek();
    std::string name = word_or_string("a name of an entry point");
    lexer_.expect("=");
    std::string graph = lexer_.name_of(lexer_.expect(TokenKind::kSymbol, "a graph such as '@main'"));
    if (!module_->entry_points.emplace(name, graph).second)
      lexer_.fail(token, fmt::format("entry point '{}' is defined twice", name));
  }

  // Name, type and fields of a table's row; `exists` says whether the name is taken.
  struct Row {
    std::string name;
    Type type;
    FieldList fields;
  };
  template <typename Exists>
  Row row(const char* table, Exists exists) {
    Token token = lexer_.expect(TokenKind::kSymbol, "a name such as '@x'");
    std::string name = lexer_.name_of(token);
    if (name.empty()) lexer_.fail(token, "a name is not empty");
    if (exists(name)) lexer_.fail(token, fmt::format("{} '@{}' is defined twice", table, name));
    lexer_.expect(":");
    Type read = type();
    return {name, read, lexer_.accept("{") ? fields(table) : FieldList(lexer_, table)};
  }

  void variable() {
    Row r = row("variable", [&](const std::string& name) { return module_->find_variable(name) != nullptr; });
    Variable v;
    v.name = r.name;
    v.type = r.type;
    v.ipu = r.fields.take_index("ipu");
    v.role = r.fields.take<std::string>("role", "parameter");
    v.grouping.stride = r.fields.take<int64_t>("group_stride", 1);
    v.grouping.size = r.fields.take<int64_t>("group_size", 0);
    v.grouping.assignment = r.fields.take<std::vector<int64_t>>("group_assignment", {});
    v.retrieval = r.fields.take_choice("retrieval", kRetrievals, 0) == 0 ? Retrieval::kOnePerGroup
                                                                         : Retrieval::kAllReplicas;
    v.meta_shape = r.fields.take<std::vector<int64_t>>("meta_shape", {});
    v.shard_over = r.fields.take<int64_t>("shard_over", 1);
    v.remote_buffer = r.fields.take<Symbol>("remote_buffer", {}).name;
    v.remote_entry = r.fields.take<int64_t>("remote_entry", 0);
    v.initial = r.fields.take<ConstantPtr>("initial", nullptr);
    v.adopted = r.fields.take<bool>("adopted", false);
    r.fields.finish();
    module_->add_variable(std::move(v));
  }

  void stream() {
    Row r = row("stream", [&](const std::string& name) { return module_->find_stream(name) != nullptr; });
    Stream s;
    s.name = r.name;
    s.type = r.type;
    s.direction = static_cast<StreamDirection>(r.fields.take_choice("direction", kDirections, 0));
    s.host_dtype = r.fields.take<DType>("host_dtype", r.type.dtype);
    s.mode = static_cast<OutputMode>(r.fields.take_choice("mode", kOutputModes, 2));
    s.period = r.fields.take<int64_t>("period", 1);
    s.block = r.fields.take<int64_t>("block", 1);
    s.constant = r.fields.take<bool>("constant", false);
    s.ipu = r.fields.take_index("ipu");
    r.fields.finish();
    module_->add_stream(std::move(s));
  }

  void ring() {
    Row r = row("ring", [&](const std::string& name) { return module_->find_ring(name) != nullptr; });
    Ring ring;
    ring.name = r.name;
    ring.type = r.type;
    ring.capacity = r.fields.take<int64_t>("capacity", 1);
    ring.from_ipu = r.fields.take_index("from").value_or(0);
    ring.to_ipu = r.fields.take_index("to").value_or(0);
    r.fields.finish();
    module_->add_ring(std::move(ring));
  }

  void remote_buffer() {
    Row r = row("remote_buffer",
                [&](const std::string& name) { return module_->find_remote_buffer(name) != nullptr; });
    RemoteBuffer buffer;
    buffer.name = r.name;
    buffer.type = r.type;
    buffer.entries = r.fields.take<int64_t>("entries", 1);
    r.fields.finish();
    module_->add_remote_buffer(std::move(buffer));
  }

  // --- graphs and ops

  void graph() {
    Token token = lexer_.expect(TokenKind::kSymbol, "a graph name such as '@main'");
    std::string name = lexer_.name_of(token);
    if (name.empty()) lexer_.fail(token, "a name is not empty");
    if (module_->find_graph(name) != nullptr)
      lexer_.fail(token, fmt::format("graph '@{}' is defined twice", name));
    graph_ = module_->add_graph(name);
    lexer_.expect("(");
    while (!lexer_.peek().is(")")) {
      if (!graph_->inputs().empty()) lexer_.expect(",");
      input();
    }
    lexer_.expect(")");
    lexer_.expect("->");
    std::vector<Type> outputs = output_types();
    if (lexer_.accept_word("attributes")) {
      lexer_.expect("{");
      graph_->attributes = attributes_until_brace();
    }
    lexer_.expect("{");
    labels_.clear();
    edges_.clear();
    while (!lexer_.peek().is_word("return")) {
      if (lexer_.peek().is("}")) lexer_.fail_expected("an op or 'return'");
      op();
    }
    return_line(outputs);
    for (const auto& [op, label] : edges_) {
      auto at = labels_.find(label.text);
      if (at == labels_.end())
        lexer_.fail(label, fmt::format("no op of @{} has the label {}", name, label.text));
      if (at->second == op) lexer_.fail(label, fmt::format("op {} is ordered after itself", label.text));
      op->after.push_back(at->second);
    }
  }

  void input() {
    Token token = lexer_.expect(TokenKind::kValue, "an input such as '%x: f32[2]'");
    std::string name = fresh_name(token);
    lexer_.expect(":");
    Value* value = graph_->add_input(type(), name);
    check_name(token, *value, name);
    if (!lexer_.accept("{")) return;
    FieldList marks = fields("input");
    value->by_reference = marks.take<bool>("by_reference", false);
    value->ipu = marks.take_index("ipu");
    marks.finish();
  }

  std::vector<Type> output_types() {
    std::vector<Type> types;
    if (!lexer_.accept("(")) {
      types.push_back(type());
      return types;
    }
    while (!lexer_.peek().is(")")) {
      if (!types.empty()) lexer_.expect(",");
      types.push_back(type());
    }
    lexer_.expect(")");
    return types;
  }

  void return_line(const std::vector<Type>& types) {
    Token word = lexer_.take();
    while (!lexer_.peek().is("}")) {
      if (!graph_->outputs().empty()) lexer_.expect(",");
      Token token = lexer_.peek();
      Value* value = known_value();
      size_t i = graph_->outputs().size();
      if (i < types.size() && value->type() != types[i])
        lexer_.fail(token, fmt::format("the header says output {} is {}, and {} is {}", i,
                                       to_string(types[i]), token.text, to_string(value->type())));
      graph_->append_output(value);
    }
    if (graph_->outputs().size() != types.size())
      lexer_.fail(word, fmt::format("the header names {} outputs, and {} are returned", types.size(),
                                    graph_->outputs().size()));
    lexer_.expect("}");
  }

  void op() {
    Token label{};
    if (lexer_.peek().kind == TokenKind::kLabel) {
      label = lexer_.take();
      lexer_.expect(":");
    }
    std::vector<std::pair<Token, std::string>> results;
    if (lexer_.peek().kind == TokenKind::kValue) {
      do {
        Token token = lexer_.expect(TokenKind::kValue, "a result such as '%y'");
        results.emplace_back(token, fresh_name(token));
      } while (lexer_.accept(","));
      lexer_.expect("=");
    }
    Token kind_token = lexer_.peek();
    std::string kind = word_or_string("an op such as 'add(%a, %b)'");
    if (kind.empty()) lexer_.fail(kind_token, "the name of an op is not empty");
    lexer_.expect("(");
    std::vector<Value*> operands;
    for (bool first = true; !lexer_.peek().is(")"); first = false) {
      if (!first) lexer_.expect(",");
      operands.push_back(lexer_.accept_word("none") ? nullptr : known_value());
    }
    lexer_.expect(")");
    Attributes attributes;
    Settings settings;
    if (lexer_.accept("{")) {
      attributes = attributes_until("|", "}");
      if (lexer_.accept("|")) {
        FieldList list = fields("setting");
        settings = take_settings(list);
      } else {
        lexer_.expect("}");
      }
    }
    std::vector<Type> types;
    if (lexer_.accept(":")) {
      do types.push_back(type());
      while (lexer_.accept(","));
    }
    if (types.size() != results.size())
      lexer_.fail(kind_token, fmt::format("'{}' has {} result names and {} result types", kind,
                                          results.size(), types.size()));
    Op* op = graph_->create(kind, operands, std::move(attributes), {});
    op->settings = std::move(settings);
    for (size_t i = 0; i < results.size(); ++i) {
      const auto& [token, name] = results[i];
      if (graph_->find_value(name) != nullptr)
        lexer_.fail(token, fmt::format("value '%{}' is defined twice", name));
      check_name(token, *op->append_result(types[i], name), name);
    }
    if (!label.text.empty() && !labels_.emplace(label.text, op).second)
      lexer_.fail(label, fmt::format("label {} is given twice", label.text));
    while (lexer_.accept_word("loc")) places_.push_back(location());
    if (!places_.empty()) op->location = places_.size() == 1 ? places_[0] : join(places_[0], places_);
    places_.clear();
    if (lexer_.accept_word("origin")) op->origin = origin();
    if (lexer_.accept_word("after")) {
      lexer_.expect("(");
      do edges_.emplace_back(op, lexer_.expect(TokenKind::kLabel, "a label such as '#0'"));
      while (lexer_.accept(","));
      lexer_.expect(")");
    }
  }

  // Equal locations and origins share one object, as they did before printing.
  Location location() {
    size_t begin = lexer_.offset();
    auto data = std::make_shared<LocationData>();
    lexer_.expect("(");
    data->file = lexer_.name_of(lexer_.expect(TokenKind::kString, "a file name in quotes"));
    lexer_.expect(":");
    data->line = index("a line number");
    if (lexer_.accept(","))
      data->module_path = lexer_.name_of(lexer_.expect(TokenKind::kString, "a module path in quotes"));
    size_t end = lexer_.offset();
    lexer_.expect(")");
    return locations_.emplace(lexer_.text().substr(begin, end - begin), std::move(data)).first->second;
  }

  OriginPtr origin() {
    size_t begin = lexer_.offset();
    auto data = std::make_shared<Origin>();
    lexer_.expect("(");
    data->domain = lexer_.name_of(lexer_.expect(TokenKind::kString, "a domain in quotes"));
    lexer_.expect(",");
    data->type = lexer_.name_of(lexer_.expect(TokenKind::kString, "an operator in quotes"));
    while (lexer_.accept(",")) {
      if (lexer_.accept("{"))
        data->attributes = attributes_until_brace();
      else
        data->version = index("a version or '{'");
    }
    size_t end = lexer_.offset();
    lexer_.expect(")");
    return origins_.emplace(lexer_.text().substr(begin, end - begin), std::move(data)).first->second;
  }

  // --- pieces

  int index(std::string_view what) {
    Token token = lexer_.expect(TokenKind::kInteger, what);
    int value = 0;
    auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (error != std::errc()) lexer_.fail(token, "this number does not fit 32 bits");
    return value;
  }

  std::string word_or_string(std::string_view what) {
    TokenKind kind = lexer_.peek().kind;
    if (kind != TokenKind::kIdentifier && kind != TokenKind::kString) lexer_.fail_expected(what);
    return lexer_.name_of(lexer_.take());
  }

  std::string fresh_name(const Token& token) {
    std::string name = lexer_.name_of(token);
    if (name.empty()) lexer_.fail(token, "a name is not empty");
    if (graph_->find_value(name) != nullptr)
      lexer_.fail(token, fmt::format("value '%{}' is defined twice", name));
    return name;
  }
  void check_name(const Token& token, const Value& value, const std::string& name) {
    if (value.name() != name) lexer_.fail(token, "a value's name has only letters, digits and _ . $ / -");
  }

  Value* known_value() {
    Token token = lexer_.expect(TokenKind::kValue, "a value such as '%x'");
    Value* value = graph_->find_value(lexer_.name_of(token));
    if (value == nullptr)
      lexer_.fail(token, fmt::format("value '{}' is not defined before this line in @{}", token.text,
                                     graph_->name()));
    return value;
  }

  Type type() {
    Token name = lexer_.expect(TokenKind::kIdentifier, "a type such as 'f32[2,3]'");
    std::optional<DType> dtype = dtype_from_string(name.text);
    if (!dtype) lexer_.fail(name, fmt::format("unknown dtype '{}'", name.text));
    Type type{*dtype, parse_shape(lexer_, *dtype), Layout::kPlain};
    if (lexer_.accept(":")) {
      Token layout_name = lexer_.expect(TokenKind::kIdentifier, "a layout");
      std::optional<Layout> layout = layout_from_string(layout_name.text);
      if (!layout) lexer_.fail(layout_name, fmt::format("unknown layout '{}'", layout_name.text));
      if (!layout->fits(type.shape))
        lexer_.fail(layout_name, fmt::format("layout '{}' is of {} dimensions, the type has {}",
                                             layout_name.text, layout->rank(), type.shape.size()));
      type.layout = *layout;
    }
    return type;
  }

  Attributes attributes_until_brace() {
    Attributes attributes = attributes_until("}", "}");
    lexer_.expect("}");
    return attributes;
  }
  Attributes attributes_until(std::string_view end, std::string_view other_end) {
    return parse_fields(lexer_, "attribute", end, other_end).take_all();
  }
  FieldList fields(const char* what) {
    FieldList list = parse_fields(lexer_, what, "}", "}");
    lexer_.expect("}");
    return list;
  }

  Lexer lexer_;
  std::unique_ptr<Module> module_;
  Graph* graph_ = nullptr;
  std::unordered_map<std::string_view, Op*> labels_;
  std::vector<std::pair<Op*, Token>> edges_;
  std::unordered_map<std::string_view, Location> locations_;
  std::vector<Location> places_;  // of one op
  std::unordered_map<std::string_view, OriginPtr> origins_;
};

}  // namespace

std::unique_ptr<Module> parse(std::string_view text, std::string_view source_name,
                              const ParseOptions& options) {
  return Parser(text, source_name, options).run();
}

}  // namespace ipu::ir
