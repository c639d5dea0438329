// Which values and which pieces of control each IPU needs: backwards from the ops with effects. What nobody
// needs on an IPU is not projected onto it.
#pragma once

#include <map>
#include <vector>

#include "lowering/nest.h"

namespace ipu::lowering {

class Demand {
 public:
  explicit Demand(const Nest& nest);

  bool needs(int ipu, const Scope& scope, const ir::Value* value) const {
    return has(values_, scope.value(value), ipu);
  }
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
  void ask(const Scope& scope, const ir::Value* condition, int ipu, const ir::Op* site);
  void follow(const Want& want);
  void follow_input(const Scope& scope, const ir::Value* input, int ipu);

  const Nest& nest_;
  size_t words_;
  std::vector<uint64_t> values_, scopes_;
  std::vector<Want> work_;
  std::map<std::pair<const Scope*, const ir::Op*>, std::optional<StaticCondition>> conditions_;
};

}  // namespace ipu::lowering
