// Merges ops that compute the same value: same kind, operands, attributes and place. The first one stays.
// Never merges ops with effects, opaque ops, reads of state, ops on different IPUs or stages, or an op that
// was marked for recomputation with one that was not (that would keep what the user wanted recomputed). Works
// graph by graph: a value of the caller is not seen in the callee. Two random ops are equal only if seed and
// stream_id are.
#include <bit>
#include <cstring>
#include <unordered_map>

#include "ir/structure.h"
#include "ops/definition/build.h"
#include "passes/effects.h"
#include "passes/inline_graph.h"
#include "passes/pass.h"
#include "support/interruption.h"

namespace ipu::passes {
namespace {

void mix(size_t& hash, size_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29); }
void mix_bytes(size_t& hash, const void* bytes, size_t size) {
  mix(hash, std::hash<std::string_view>()(std::string_view(static_cast<const char*>(bytes), size)));
}

// By bits: 0.0 and -0.0 are different attributes, a NaN is equal to itself.
bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }
bool same(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<double>(&a)) return same_bits(*x, std::get<double>(b));
  if (const auto* x = std::get_if<std::vector<double>>(&a)) {
    const auto& y = std::get<std::vector<double>>(b);
    return x->size() == y.size() && std::memcmp(x->data(), y.data(), x->size() * sizeof(double)) == 0;
  }
  return equal(a, b);
}
bool same(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Attributes::Entry& x, const Attributes::Entry& y) {
                      return x.first == y.first && same(x.second, y.second);
                    });
}

struct HashAttribute {
  size_t& hash;
  void operator()(bool x) const { mix(hash, x); }
  void operator()(int64_t x) const { mix(hash, static_cast<size_t>(x)); }
  void operator()(double x) const { mix(hash, std::bit_cast<uint64_t>(x)); }
  void operator()(const std::string& x) const { mix_bytes(hash, x.data(), x.size()); }
  void operator()(DType x) const { mix(hash, static_cast<size_t>(x)); }
  void operator()(const Symbol& x) const { (*this)(x.name); }
  void operator()(const ConstantPtr& x) const { mix_bytes(hash, x->bytes.data(), x->bytes.size()); }
  template <typename T>
  void operator()(const std::vector<T>& list) const {
    for (const T& x : list) (*this)(x);
  }
};

// An op as a key: the op itself, its attributes with defaults, its operands in canonical order.
struct Key {
  const ir::Op* op;
  Attributes attributes;
  std::vector<const ir::Value*> operands;
  size_t hash = 0;

  explicit Key(const ir::Op& of) : op(&of), attributes(of.attributes) {
    const ops::OpDef* def = ops::definition(of);
    if (def != nullptr) attributes = ops::with_defaults(*def, of.attributes);
    for (int i = 0; i < of.operand_count(); ++i) operands.push_back(of.operand(i));
    if (def != nullptr && def->has(ops::kCommutative) && operands.size() >= 2 &&
        std::less<>()(operands[1], operands[0]))
      std::swap(operands[0],
                operands[1]);  // the order of addresses decides only which of two equal keys is built
    mix_bytes(hash, of.kind().data(), of.kind().size());
    for (const ir::Value* operand : operands) mix(hash, std::hash<const void*>()(operand));
    for (const auto& [name, value] : attributes) {
      mix_bytes(hash, name.data(), name.size());
      std::visit(HashAttribute{hash}, value);
    }
  }
};

bool same_place(const ir::Settings& a, const ir::Settings& b) {
  if (a.ipu != b.ipu || a.stage != b.stage || a.phase != b.phase || a.tile_set != b.tile_set ||
      a.exchange != b.exchange)
    return false;
  if (!a.ipu && a.block != b.block) return false;  // not placed yet: the block will decide
  if (a.recompute != b.recompute) return false;
  return a.recompute != ir::Recompute::kRecompute || a.context == b.context;
}

struct KeyHash {
  size_t operator()(const Key& key) const { return key.hash; }
};
struct KeyEqual {
  bool operator()(const Key& a, const Key& b) const {
    if (a.op->kind() != b.op->kind() || a.operands != b.operands ||
        a.op->result_count() != b.op->result_count())
      return false;
    for (int i = 0; i < a.op->result_count(); ++i)
      if (a.op->result(i)->type() != b.op->result(i)->type()) return false;
    const ir::Settings &x = a.op->settings, &y = b.op->settings;
    return same_place(x, y) && x.available_memory == y.available_memory && same(x.outline, y.outline) &&
           same(a.attributes, b.attributes);
  }
};

class Cse : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    Effects effects(module);
    bool changed = false;
    for (const auto& graph : module.graphs()) {
      if (has_order_edges(*graph)) continue;
      std::unordered_map<Key, ir::Op*, KeyHash, KeyEqual> first;
      ir::Op* next = nullptr;
      for (ir::Op* op = graph->ops().empty() ? nullptr : graph->ops().front().get(); op != nullptr;
           op = next) {
        poll_interruption();
        next = graph->next(op);
        if (op->result_count() == 0 || !effects.is_pure(*op)) continue;
        auto [at, is_first] = first.try_emplace(Key(*op), op);
        if (is_first) continue;
        std::vector<ir::Value*> results;
        for (int i = 0; i < op->result_count(); ++i) results.push_back(at->second->result(i));
        replace_op(*op, results);
        context.count("ops merged");
        changed = true;
      }
    }
    return changed;
  }
};

IPU_REGISTER_PASS(Cse, "cse", "Merges ops that compute the same value.", {"ops merged"});

}  // namespace
}  // namespace ipu::passes
