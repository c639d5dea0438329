#include "frontends/tensorflow/lists.h"

#include <fmt/core.h>

#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "support/error.h"

namespace ipu::frontends::tensorflow {
namespace {

using records::GraphRecord;
using records::NodeRecord;

constexpr int kDeepest = 4;  // lists in each other

bool has_lists(const GraphRecord& graph) {
  for (const NodeRecord& node : graph.nodes) {
    if (node.type.find("TensorList") != std::string::npos) return true;
    for (const auto& [name, inside] : node.subgraphs)
      if (has_lists(inside)) return true;
  }
  return false;
}

bool makes_list(std::string_view type) {
  return type == "EmptyTensorList" || type == "TensorListReserve" || type == "TensorListFromTensor" ||
         type == "TensorListSplit" || type == "TensorListScatter" || type == "TensorListScatterV2";
}

// In place of what the other branch of a condition gives, which nobody reads.
bool stands_in(std::string_view type) { return type == "FakeParam"; }

// Results of these are what their operands are.
bool hands_on(std::string_view type) {
  return type == "AddN" || type == "ZerosLike" || type == "Identity" || type == "StopGradient";
}

// Writes entries behind the last one where it has to.
bool appends_where_it_writes(const NodeRecord& node) {
  const Attribute* resizes = node.attributes.find("resize_if_index_out_of_bounds");
  return node.type == "TensorListSetItem" && resizes != nullptr && std::holds_alternative<bool>(*resizes) &&
         std::get<bool>(*resizes);
}

// What is known of a value, by a number that several names of one list share.
struct Class {
  int parent = -1;  // another number; -1: it is its own
  bool is_list = false;
  bool is_resized = false;
  int element = -1;                      // class of the entries
  std::vector<int> made_in;              // loops around the node that makes it
  std::vector<std::vector<int>> pushes;  // loops around each node that appends
};

class Lists {
 public:
  GraphRecord convert(const GraphRecord& graph) {
    find_classes(graph);
    for (const Class& one : classes_)
      if (one.parent < 0 && one.is_list)
        for (const std::vector<int>& loops : one.pushes) counted_.insert(loops.begin(), loops.end());
    return rewritten(graph);
  }

 private:
  using Scope = std::unordered_map<std::string, int>;

  // --- which values are lists

  int add_class() {
    classes_.emplace_back();
    return static_cast<int>(classes_.size()) - 1;
  }
  int root(int id) const {
    while (classes_[static_cast<size_t>(id)].parent >= 0) id = classes_[static_cast<size_t>(id)].parent;
    return id;
  }
  Class& of(int id) { return classes_[static_cast<size_t>(root(id))]; }

  void unify(int a, int b) {
    std::vector<std::pair<int, int>> open{{a, b}};
    while (!open.empty()) {
      const auto [left, right] = open.back();
      open.pop_back();
      const int into = root(left), from = root(right);
      if (into == from) continue;
      Class &kept = classes_[static_cast<size_t>(into)], &gone = classes_[static_cast<size_t>(from)];
      gone.parent = into;
      if (gone.is_list && (!kept.is_list || kept.made_in.size() > gone.made_in.size()))
        kept.made_in = gone.made_in;
      kept.is_list = kept.is_list || gone.is_list;
      kept.is_resized = kept.is_resized || gone.is_resized;
      kept.pushes.insert(kept.pushes.end(), gone.pushes.begin(), gone.pushes.end());
      if (kept.element < 0) {
        kept.element = gone.element;
      } else if (gone.element >= 0) {
        open.emplace_back(kept.element, gone.element);
      }
    }
  }
  void set_element(int list, int element) {
    Class& one = of(list);
    if (one.element < 0) {
      one.element = element;
    } else {
      unify(one.element, element);
    }
  }

  int find(const GraphRecord& graph, const std::string& name) {
    for (const GraphRecord* at = &graph; at != nullptr; at = around_[at])
      if (const auto found = scopes_[at].find(name); found != scopes_[at].end()) return found->second;
    return scopes_[&graph][name] = add_class();  // nobody gives it: an error of the import
  }
  int define(const GraphRecord& graph, const std::string& name) {
    const int id = add_class();
    if (!name.empty()) scopes_[&graph].emplace(name, id);
    return id;
  }

  void find_classes(const GraphRecord& graph) {
    for (const GraphRecord::Input& input : graph.inputs)
      if (!scopes_[&graph].contains(input.name)) define(graph, input.name);
    for (const GraphRecord::Initialiser& initialiser : graph.initialisers) define(graph, initialiser.name);
    for (const NodeRecord& node : graph.nodes) {
      std::vector<int> operands, results;
      for (const std::string& name : node.operands)
        operands.push_back(name.empty() ? add_class() : find(graph, name));
      for (const std::string& name : node.results) results.push_back(define(graph, name));
      if (node.subgraphs.empty()) {
        visit(node, operands, results);
      } else {
        visit_graphs(graph, node, operands, results);
      }
    }
  }

  void visit(const NodeRecord& node, const std::vector<int>& operands, const std::vector<int>& results) {
    const std::string& type = node.type;
    const auto link = [&](size_t result, size_t operand) {
      if (result < results.size() && operand < operands.size()) unify(operands[operand], results[result]);
    };
    if (makes_list(type) && !results.empty()) {
      Class& made = of(results[0]);
      if (!made.is_list) made.made_in = loops_;
      made.is_list = true;
    } else if (type == "TensorListPushBack" || type == "TensorListSetItem") {
      link(0, 0);
      const size_t item = type == "TensorListPushBack" ? 1 : 2;
      if (operands.size() <= item) return;
      set_element(operands[0], operands[item]);
      if (item == 1 || appends_where_it_writes(node)) of(operands[0]).pushes.push_back(loops_);
    } else if (type == "TensorListResize" || type == "TensorListScatterIntoExistingList") {
      link(0, 0);
      if (type == "TensorListResize" && !operands.empty()) of(operands[0]).is_resized = true;
    } else if (type == "TensorListPopBack") {
      link(0, 0);
      if (operands.size() > 0 && results.size() > 1) set_element(operands[0], results[1]);
    } else if (type == "TensorListGetItem") {
      if (!operands.empty() && !results.empty()) set_element(operands[0], results[0]);
    } else if (hands_on(type)) {
      for (size_t i = 0; i < operands.size(); ++i) link(0, i);
    }
  }

  // Operands from `first` on are the inputs of the graphs; a loop hands outputs to inputs.
  void visit_graphs(const GraphRecord& around, const NodeRecord& node, const std::vector<int>& operands,
                    const std::vector<int>& results) {
    const size_t first = first_carried(node);
    const bool is_loop = repeats(node);
    if (is_loop) loops_.push_back(loop_of(node));
    for (const auto& [name, graph] : node.subgraphs) {
      around_[&graph] = &around;
      for (size_t i = 0; i < graph.inputs.size(); ++i) {
        const int input = define(graph, graph.inputs[i].name);
        if (first + i < operands.size()) unify(operands[first + i], input);
      }
      find_classes(graph);
      if (name == "cond") continue;
      for (size_t i = 0; i < graph.outputs.size(); ++i) {
        const int output = find(graph, graph.outputs[i]);
        if (i < results.size()) unify(output, results[i]);
        if (is_loop && first + i < operands.size()) unify(operands[first + i], output);
      }
    }
    if (is_loop) loops_.pop_back();
  }

  static bool repeats(const NodeRecord& node) { return node.subgraphs.contains("body"); }
  static size_t first_carried(const NodeRecord& node) {
    if (node.type == "Repeat") return node.attributes.has("n") ? 0 : 1;
    return node.subgraphs.contains("then") || node.subgraphs.contains("branch0") ? 1 : 0;
  }
  int loop_of(const NodeRecord& node) {
    return loop_numbers_.emplace(&node, static_cast<int>(loop_numbers_.size())).first->second;
  }

  // --- names

  int depth(int id) {
    int deep = 0;
    for (int at = root(id); of(at).is_list; at = root(of(at).element)) {
      ++deep;
      if (of(at).element < 0) break;
      if (deep > kDeepest)
        throw Error(ErrorCode::kUnsupportedOps,
                    fmt::format("unsupported: TensorLists in each other, more than {} of them", kDeepest));
    }
    return deep;
  }
  static int part_count(int deep) { return 1 << deep; }
  static std::string part(const std::string& name, int i) {
    return i == 0 ? name : fmt::format("{}#{}", name, i);
  }
  void append_parts(std::vector<std::string>& to, const std::string& name, int deep) {
    for (int i = 0; i < part_count(deep); ++i) to.push_back(name.empty() ? name : part(name, i));
  }
  std::vector<std::string> parts_of(const GraphRecord& graph, const std::vector<std::string>& names) {
    std::vector<std::string> parts;
    for (const std::string& name : names)
      append_parts(parts, name, name.empty() ? 0 : depth(find(graph, name)));
    return parts;
  }

  GraphRecord rewritten(const GraphRecord& graph) {
    GraphRecord made;
    made.name = graph.name;
    made.initialisers = graph.initialisers;
    made.output_types = graph.output_types;
    made.output_prefix = graph.output_prefix;
    for (const GraphRecord::Input& input : graph.inputs)
      for (int i = 0; i < part_count(depth(find(graph, input.name))); ++i)
        made.inputs.push_back({part(input.name, i), input.type});
    for (const NodeRecord& node : graph.nodes) rewrite(graph, node, made.nodes);
    made.outputs = parts_of(graph, graph.outputs);
    return made;
  }

  void rewrite(const GraphRecord& graph, const NodeRecord& node, std::vector<NodeRecord>& to) {
    const bool gives_list = makes_list(node.type) || hands_on(node.type) || stands_in(node.type);
    const std::string list_name = !node.results.empty() && gives_list ? node.results[0]
                                  : node.operands.empty()             ? ""
                                                                      : node.operands[0];
    const bool is_of_list = node.subgraphs.empty() && !list_name.empty() &&
                            depth(find(graph, list_name)) > 0 &&
                            (gives_list || node.type.starts_with("TensorList"));
    if (is_of_list) return rewrite_list(graph, node, find(graph, list_name), to);
    NodeRecord made = node;
    made.subgraphs.clear();
    for (const auto& [name, inside] : node.subgraphs) made.subgraphs.emplace(name, rewritten(inside));
    if (repeats(node))
      if (const int loop = loop_of(node); counted_.contains(loop)) made.attributes.set("loop", int64_t{loop});
    made.operands = parts_of(graph, node.operands);
    made.results = parts_of(graph, node.results);
    to.push_back(std::move(made));
  }

  // A node for each part of an entry.
  void rewrite_list(const GraphRecord& graph, const NodeRecord& node, int list, std::vector<NodeRecord>& to) {
    const int deep = depth(list), entries = part_count(deep - 1);
    for (int k = 0; k < entries; ++k) {
      NodeRecord made = node;
      const auto parts = [&](const std::vector<std::string>& names, std::vector<std::string>& parts) {
        parts.clear();
        for (const std::string& name : names) {
          const int own = name.empty() ? 0 : depth(find(graph, name));
          if (own == deep) {
            parts.push_back(part(name, 2 * k));
            parts.push_back(part(name, 2 * k + 1));
          } else {
            parts.push_back(own == deep - 1 && own > 0 ? part(name, k) : name);
          }
        }
      };
      parts(node.operands, made.operands);
      parts(node.results, made.results);
      if (hands_on(node.type)) {
        made.domain = "ipu";
        made.type = node.type == "AddN" ? "ListSum" : node.type == "ZerosLike" ? "ListZeros" : "ListSame";
        made.attributes = {};
      }
      if (stands_in(node.type)) {
        made.domain = "ipu";
        made.type = "ListAbsent";
        made.attributes = {};
      }
      made.attributes.set("list", fmt::format("{}.{}", root(list), k));
      if (deep > 1) made.attributes.erase("element_dtype");
      if (makes_list(node.type)) made.attributes.set("pushes", pushes_of(list));
      if (const Class& one = of(list); !one.pushes.empty() || one.is_resized)
        made.attributes.set("grows", true);
      const bool reads_one = node.type == "TensorListLength" || node.type == "TensorListElementShape";
      if (reads_one && k > 0) continue;
      to.push_back(std::move(made));
    }
  }

  // "0,3" for each: the loops inside of those around the list.
  std::vector<std::string> pushes_of(int list) {
    std::vector<std::string> all;
    const Class& one = of(list);
    for (const std::vector<int>& loops : one.pushes) {
      std::string text;
      for (size_t i = one.made_in.size(); i < loops.size(); ++i)
        text += fmt::format("{}{}", text.empty() ? "" : ",", loops[i]);
      all.push_back(text);
    }
    return all;
  }

  std::vector<Class> classes_;
  std::unordered_map<const GraphRecord*, Scope> scopes_;
  std::unordered_map<const GraphRecord*, const GraphRecord*> around_;
  std::vector<int> loops_;  // around what is visited
  std::unordered_map<const NodeRecord*, int> loop_numbers_;
  std::set<int> counted_;  // loops whose rounds say how long a list gets
};

}  // namespace

std::optional<records::GraphRecord> with_lists_as_tensors(const records::GraphRecord& graph) {
  if (!has_lists(graph)) return std::nullopt;
  return Lists().convert(graph);
}

}  // namespace ipu::frontends::tensorflow
