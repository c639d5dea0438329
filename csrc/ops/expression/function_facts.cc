#include "ops/expression/function_facts.h"

namespace ipu::ops {
namespace {

using kernels::OpCode;

namespace code {
using enum kernels::OpCode;
constexpr std::nullopt_t kSame = std::nullopt;
}  // namespace code

// In the order of Func.
constexpr FunctionFacts kFacts[] = {
    {"input", "", false, false, {}},
    {"constant", "", false, false, {}},
    {"select", "where", false, false, {code::kSelect, code::kSelect, code::kSelect, code::kSelect}},
    {"cast", "", false, false, {}},
#define IPU_TYPED(name, op, on_f, on_i, on_u, on_b, ...) \
  {#name, op, false, false, {code::k##on_f, code::k##on_i, code::k##on_u, code::k##on_b}},
#define IPU_PREDICATE(name, op, on_f, on_i, on_u, on_b, ...) \
  {#name, op, true, false, {code::k##on_f, code::k##on_i, code::k##on_u, code::k##on_b}},
#define IPU_REAL(name, number, op, arity, ...) {#name, op, false, true, {code::k##name##F}},
    IPU_TYPED_FUNCTIONS(IPU_TYPED) IPU_PREDICATES(IPU_PREDICATE) IPU_REAL_FUNCTIONS(IPU_REAL)
#undef IPU_TYPED
#undef IPU_PREDICATE
#undef IPU_REAL
};

using Meanings = std::array<std::optional<Meaning>, kernels::kOpCodeCount>;

// The first row that has a code says what it means: on u32 floor_div is div, and fmod is remainder.
Meanings meanings_of_codes() {
  Meanings meanings;
  for (size_t f = 0; f < std::size(kFacts); ++f)
    for (const Register r : {Register::kFloat, Register::kSigned, Register::kUnsigned, Register::kBoolean}) {
      const std::optional<OpCode> code = kFacts[f].codes[static_cast<size_t>(r)];
      if (!code || *code == OpCode::kSelect || meanings[static_cast<size_t>(*code)]) continue;
      const bool is_boolean = kFacts[f].is_predicate || r == Register::kBoolean;
      meanings[static_cast<size_t>(*code)] =
          Meaning{static_cast<Func>(f), is_boolean ? std::optional(DType::kBool) : std::nullopt};
    }
#define IPU_CONVERSION(name, number, text, dtype) meanings[number] = Meaning{Func::kCast, DType::dtype};
  IPU_CONVERSIONS(IPU_CONVERSION)
#undef IPU_CONVERSION
  return meanings;
}

}  // namespace

const FunctionFacts& facts_of(Func func) { return kFacts[static_cast<size_t>(func)]; }

std::optional<Meaning> meaning_of(OpCode code) {
  static const Meanings meanings = meanings_of_codes();
  return meanings[static_cast<size_t>(code)];
}

}  // namespace ipu::ops
