// Which values and which pieces of control each IPU needs: backwards from the ops with effects, and from the outputs
// of a subroutine. What nobody
// needs on an IPU is not projected onto it.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lowering/nest.h"

namespace ipu::lowering {

class Demand {
 public:
  explicit Demand(const Nest& nest);

  bool needs(int ipu, const Scope& scope, const ir::Value* value) const {
    return has(values_, scope.value(value), ipu);
  }
  // Something must run whether anybody reads a value or not.
  bool has_effects() const { return has_effects_; }
  // `op` calls a subroutine, and somebody needs what that does.
  bool is_called(const Scope& scope, const ir::Op& op) const { return called_.contains({&scope, &op}); }
  // Something in the scope runs on the IPU.
  bool is_active(int ipu, const Scope& scope) const { return has(scopes_, scope.number, ipu); }
  const std::optional<StaticCondition>& condition(const Scope& scope, const ir::Op& site) const {
    return conditions_.at({&scope, &site});
  }

 private:
  struct Want {
    const Scope* scope;
    const ir::Value* value;
    int ipu;
  };
  bool has(const std::vector<uint64_t>& bits, int item, int ipu) const {
    return (bits[static_cast<size_t>(item) * words_ + ipu / 64] >> (ipu % 64)) & 1;
  }
  bool mark(std::vector<uint64_t>& bits, int item, int ipu) {
    if (has(bits, item, ipu)) return false;
    bits[static_cast<size_t>(item) * words_ + ipu / 64] |= uint64_t{1} << (ipu % 64);
    return true;
  }
  void want(const Scope& scope, const ir::Value* value, int ipu, const ir::Op* reader);
  void activate(const Scope& scope, int ipu);
  void meet(const Scope& scope);
  void ask(const Scope& scope, const ir::Value* condition, int ipu, const ir::Op* site);
  void follow(const Want& want);
  void want_call(const Scope& scope, const ir::Op& op, const Subroutine& called);
  void follow_input(const Scope& scope, const ir::Value* input, int ipu);

  const Nest& nest_;
  size_t words_;
  std::vector<uint64_t> values_, scopes_;
  std::vector<Want> work_;
  bool has_effects_ = false;
  std::set<std::pair<const Scope*, const ir::Op*>> called_;  // calls of subroutines that run
  std::map<std::pair<const Scope*, const ir::Op*>, std::optional<StaticCondition>> conditions_;
};

}  // namespace ipu::lowering
