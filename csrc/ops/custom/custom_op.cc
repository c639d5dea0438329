#include "ops/custom/custom_op.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "kernels/custom/custom_kernel.h"
#include "ops/definition/gradient_builder.h"
#include "ops/definition/work.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

using kernels::CustomCall;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kFileCorrupt, fmt::format("custom operations not loaded: {} {}.", path, why));
}

std::string full_name(std::string_view domain, std::string_view name, int64_t version) {
  return version > 1 ? fmt::format("{}.{}.v{}", domain, name, version) : fmt::format("{}.{}", domain, name);
}
std::string full_name(const ipu_custom_op& op) { return full_name(op.domain, op.name, op.version); }

TensorSpec spec_of(const ir::Type& type) { return TensorSpec::plain(type.dtype, type.shape); }

// The C form of a call together with what it points to.
struct Call {
  Call(const ipu_custom_op& op, const std::vector<const ir::Type*>& operands, const Attributes& attributes)
      : specs(specs_of(operands)), call(op, pointers(operands, specs), attributes) {}

  static std::vector<TensorSpec> specs_of(const std::vector<const ir::Type*>& operands) {
    std::vector<TensorSpec> list;
    for (const ir::Type* type : operands) list.push_back(type == nullptr ? TensorSpec{} : spec_of(*type));
    return list;
  }
  static std::vector<const TensorSpec*> pointers(const std::vector<const ir::Type*>& operands,
                                                 const std::vector<TensorSpec>& specs) {
    std::vector<const TensorSpec*> list;
    for (size_t i = 0; i < specs.size(); ++i) list.push_back(operands[i] == nullptr ? nullptr : &specs[i]);
    return list;
  }

  std::vector<TensorSpec> specs;
  CustomCall call;
};

std::vector<ir::Type> infer(const ipu_custom_op& op, const InferContext& context) {
  const Call use(op, context.operands, context.attributes);
  std::vector<ipu_type> types(static_cast<size_t>(op.result_count));
  char error[512] = "";
  const int32_t refused = kernels::in_library(
      op, "shape function", [&] { return op.infer(use.call.get(), types.data(), error, sizeof error); });
  if (refused != 0) {
    error[sizeof error - 1] = '\0';
    throw Error(ErrorCode::kTypeMismatch, fmt::format("operands do not fit: {}.", error));
  }
  std::vector<ir::Type> results;
  for (const ipu_type& type : types) {
    ir::Type result;
    const bool is_dtype = type.dtype >= 0 && type.dtype <= IPU_BOOL && type.dtype != 2 && type.dtype != 3;
    bool is_shape = type.rank >= 0 && type.rank <= IPU_MAX_RANK;
    for (int32_t d = 0; is_shape && d < type.rank; ++d) is_shape = type.shape[d] >= 0;
    if (!is_dtype || !is_shape)
      throw Error(
          ErrorCode::kTypeMismatch,
          fmt::format("operands do not fit: the shape function of '{}' gives no type.", full_name(op)));
    result.dtype = static_cast<DType>(type.dtype);
    result.shape.assign(type.shape, type.shape + type.rank);
    results.push_back(std::move(result));
  }
  return results;
}

// The interpreter runs the library's own kernel, lane after lane, in native dtypes.
void run_reference(const ipu_custom_op& op, ReferenceCall& call) {
  std::vector<const ir::Type*> types;
  for (const ReferenceTensor* operand : call.operands)
    types.push_back(operand == nullptr ? nullptr : &operand->type);
  const Call use(op, types, call.attributes);
  auto view_of = [](const ir::Type& type) {
    ipu_view view{};
    view.type = kernels::custom_type(type.dtype, type.shape);
    const Strides strides = contiguous_strides(type.shape);
    std::copy(strides.begin(), strides.end(), view.strides);
    return view;
  };
  std::vector<ConstantPtr> data;
  std::vector<ipu_view> operands, results;
  for (const ReferenceTensor* operand : call.operands) {
    operands.emplace_back();
    operands.back().type.rank = -1;
    if (operand == nullptr) continue;
    data.push_back(operand->to_constant());
    operands.back() = view_of(operand->type);
    operands.back().data = const_cast<std::byte*>(data.back()->bytes.data());
  }
  std::vector<std::vector<std::byte>> memory;
  for (const ReferenceTensor* result : call.results) {
    memory.emplace_back(static_cast<size_t>(result->type.bytes()));
    results.push_back(view_of(result->type));
    results.back().data = memory.back().data();
  }
  const int lanes = kernels::custom_lanes(op, use.call.get());
  kernels::in_library(op, "kernel", [&] {
    for (int32_t lane = 0; lane < lanes; ++lane)
      op.run(use.call.get(), operands.data(), results.data(), lane);
  });
  for (size_t i = 0; i < results.size(); ++i)
    call.results[i]->values = ReferenceTensor::from_bytes(call.results[i]->type, memory[i].data()).values;
}

void build_gradients(const ipu_custom_op& op, GradientBuilder& g) {
  for (int32_t n = 0; n < op.gradient_count; ++n) {
    const ipu_gradient& rule = op.gradients[n];
    bool is_wanted = false;
    for (int32_t i = 0; i < rule.output_count; ++i) is_wanted |= g.needs(rule.outputs[i]);
    if (!is_wanted) continue;
    std::vector<ir::Value*> operands;
    for (int32_t i = 0; i < rule.input_count; ++i) {
      const ipu_gradient_input& input = rule.inputs[i];
      if (input.source == IPU_OPERAND)
        operands.push_back(g.has_operand(input.index) ? g.operand(input.index) : nullptr);
      else if (input.source == IPU_RESULT)
        operands.push_back(g.result(input.index));
      else
        operands.push_back(g.upstream(input.index) != nullptr ? g.upstream(input.index)
                                                              : g.zeros(g.result_type(input.index)));
    }
    Attributes attributes;
    for (const AttributeDef& attribute : get_op(rule.op).attributes)
      if (const Attribute* value = g.attributes().find(attribute.name))
        attributes.set(attribute.name, *value);
    const ir::Op* built = build_op(g.builder(), rule.op, operands, std::move(attributes));
    for (int32_t i = 0; i < rule.output_count; ++i)
      if (g.needs(rule.outputs[i])) g.set(rule.outputs[i], built->result(i));
  }
}

// As many additions as its library counts.
std::vector<target::Work> counted_work(const ipu_custom_op& op, const ir::Op& use) {
  std::vector<const ir::Type*> types;
  for (int i = 0; i < use.operand_count(); ++i)
    types.push_back(use.operand(i) == nullptr ? nullptr : &use.operand(i)->type());
  const Attributes attributes = with_defaults(*definition(use), use.attributes);
  const Call call(op, types, attributes);
  const double flops =
      kernels::in_library(op, "count of operations", [&] { return op.flops(call.call.get()); });
  target::PassWork pass = std::get<target::PassWork>(pass_of(use, {"Add"}).form);
  pass.elements = static_cast<int64_t>(std::max(flops, static_cast<double>(pass.elements)));
  return {{pass}};
}

OpDef definition_of(const ipu_custom_op& op) {
  const std::string name = full_name(op);
  OpDefBuilder builder(name, "custom");
  builder.doc(op.doc == nullptr ? "" : op.doc);
  for (int32_t i = 0; i < op.operand_count; ++i) {
    const ipu_operand& operand = op.operands[i];
    const DTypeSet dtypes = operand.dtypes == 0 ? kAnything : operand.dtypes;
    if (operand.optional != 0)
      builder.optional_operand(operand.name, dtypes);
    else
      builder.operand(operand.name, dtypes);
  }
  for (int32_t i = 0; i < op.attribute_count; ++i) {
    const ipu_attribute& attribute = op.attributes[i];
    if (attribute.required != 0)
      builder.attribute(attribute.name);
    else
      builder.attribute(attribute.name, kernels::attribute_of(attribute.fallback));
  }
  for (int32_t i = 0; i < op.result_count; ++i) builder.result(op.results[i]);
  uint32_t traits = 0;
  if ((op.effects & IPU_SIDE_EFFECTS) != 0) traits |= kSideEffects;
  if ((op.effects & IPU_MAY_REUSE_FIRST) != 0) traits |= kMayReuseFirstOperand;
  if ((op.effects & IPU_EXPENSIVE) != 0) traits |= kExpensive;
  if ((op.effects & IPU_COMMUTATIVE) != 0) traits |= kCommutative;
  builder.traits(traits);
  builder.infer([&op](const InferContext& context) { return infer(op, context); });
  if (op.gradient_kind == IPU_GRADIENT_OPS)
    builder.gradient([&op](GradientBuilder& g) { build_gradients(op, g); });
  else if (op.gradient_kind == IPU_GRADIENT_ZERO)
    builder.gradient_zero();
  else
    builder.gradient_refused(op.gradient_reason == nullptr ? "its library offers none" : op.gradient_reason);
  builder.reference([&op](ReferenceCall& call) { run_reference(op, call); });
  builder.kernels([name](const ir::Op& use) {
    Attributes attributes = with_defaults(*definition(use), use.attributes);
    attributes.set("op", name);
    return std::vector<KernelChoice>{{"custom", std::move(attributes)}};
  });
  if (op.flops != nullptr) builder.work([&op](const ir::Op& use) { return counted_work(op, use); });
  return builder.take();
}

// --- what a table must be

bool is_word(const char* text) {
  if (text == nullptr || *text == '\0' ||
      (std::isalpha(static_cast<unsigned char>(*text)) == 0 && *text != '_'))
    return false;
  for (const char* c = text; *c != '\0'; ++c)
    if (std::isalnum(static_cast<unsigned char>(*c)) == 0 && *c != '_' && *c != '.') return false;
  return true;
}

// Empty, or what is wrong with one entry, gradients aside.
std::string problem_of(const ipu_custom_op& op) {
  constexpr int32_t kMost = 64;
  auto is_count = [](int32_t n, const void* list) {
    return n >= 0 && n <= kMost && (n == 0 || list != nullptr);
  };
  if (op.struct_size != sizeof(ipu_custom_op)) return "has an entry of another size";
  if (!is_word(op.domain) || !is_word(op.name) || op.version < 1)
    return "has an operation without a domain, name and version";
  const std::string name = fmt::format("'{}'", full_name(op));
  if (!is_count(op.operand_count, op.operands) || !is_count(op.attribute_count, op.attributes) ||
      !is_count(op.result_count, op.results) || !is_count(op.gradient_count, op.gradients))
    return fmt::format(
        "says more than 64 operands, attributes, results or gradients of {}, "
        "or none where it names some",
        name);
  if (op.infer == nullptr || op.run == nullptr) return "has no shape function or no kernel for " + name;
  bool was_optional = false;
  for (int32_t i = 0; i < op.operand_count; ++i) {
    if (!is_word(op.operands[i].name)) return "has an operand without a name in " + name;
    if (was_optional && op.operands[i].optional == 0)
      return "has an optional operand before others in " + name;
    was_optional = op.operands[i].optional != 0;
  }
  std::set<std::string> names;
  for (int32_t i = 0; i < op.attribute_count; ++i) {
    const ipu_attribute& attribute = op.attributes[i];
    const ipu_value& value = attribute.fallback;
    if (!is_word(attribute.name) || !names.insert(attribute.name).second ||
        std::strcmp(attribute.name, "op") == 0)
      return fmt::format("has an attribute without a name of its own in {} ('op' is taken)", name);
    if (value.kind < IPU_BOOLEAN || value.kind > IPU_REALS || value.count < 0 ||
        (value.count > 0 && (value.kind == IPU_INTEGERS ? static_cast<const void*>(value.integers)
                                                        : static_cast<const void*>(value.reals)) == nullptr))
      return fmt::format("has a broken default for '{}' of {}", attribute.name, name);
  }
  for (int32_t i = 0; i < op.result_count; ++i)
    if (!is_word(op.results[i])) return "has a result without a name in " + name;
  if (op.gradient_kind < IPU_GRADIENT_REFUSED || op.gradient_kind > IPU_GRADIENT_OPS)
    return "says an unknown kind of gradient for " + name;
  return {};
}

// `known`: operations of the same table.
std::string gradient_problem(const ipu_custom_op& op,
                             const std::map<std::string, const ipu_custom_op*>& known) {
  const std::string name = fmt::format("'{}'", full_name(op));
  for (int32_t n = 0; n < op.gradient_count; ++n) {
    const ipu_gradient& rule = op.gradients[n];
    if (rule.op == nullptr || (!known.contains(rule.op) && find_op(rule.op) == nullptr))
      return fmt::format("names the gradient operation '{}' of {}, which does not exist",
                         rule.op == nullptr ? "" : rule.op, name);
    if (rule.input_count < 0 || rule.output_count < 0 || (rule.input_count > 0 && rule.inputs == nullptr) ||
        (rule.output_count > 0 && rule.outputs == nullptr))
      return "has a broken gradient of " + name;
    for (int32_t i = 0; i < rule.input_count; ++i) {
      const ipu_gradient_input& input = rule.inputs[i];
      const int32_t bound = input.source == IPU_OPERAND ? op.operand_count : op.result_count;
      if (input.source < IPU_OPERAND || input.source > IPU_UPSTREAM || input.index < 0 ||
          input.index >= bound)
        return fmt::format("has a gradient of {} that reads what is not there", name);
    }
    for (int32_t i = 0; i < rule.output_count; ++i)
      if (rule.outputs[i] < 0 || rule.outputs[i] >= op.operand_count)
        return fmt::format("has a gradient of {} for an operand that is not there", name);
  }
  return {};
}

}  // namespace

std::vector<std::string> load_custom_ops(const std::string& path) {
  static std::mutex& mutex = *new std::mutex;
  std::lock_guard lock(mutex);
  static std::map<const ipu_custom_op_table*, std::vector<std::string>> loaded;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    refuse(path, std::string("cannot be opened: ") + (why == nullptr ? "unknown reason" : why));
  }
  using Entry = const ipu_custom_op_table* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "ipu_custom_ops"));
  if (entry == nullptr) refuse(path, "exports no function ipu_custom_ops (see ipu/custom_op.h)");
  const ipu_custom_op_table* table = entry();
  if (table == nullptr || table->count < 0 || (table->count > 0 && table->ops == nullptr))
    refuse(path, "gives no table");
  if (table->abi != IPU_CUSTOM_OP_ABI)
    refuse(path,
           fmt::format("is made for version {} of ipu/custom_op.h, this is version {}; compile it again",
                       table->abi, IPU_CUSTOM_OP_ABI));
  if (auto at = loaded.find(table); at != loaded.end()) return at->second;
  std::map<std::string, const ipu_custom_op*> known;
  for (int32_t i = 0; i < table->count; ++i) {
    const ipu_custom_op* op = table->ops[i];
    if (op == nullptr) refuse(path, "has an empty entry");
    if (std::string problem = problem_of(*op); !problem.empty()) refuse(path, problem);
    const std::string name = full_name(*op);
    if (find_op(name) != nullptr || !known.emplace(name, op).second)
      refuse(path, fmt::format("defines '{}', which exists already", name));
  }
  for (const auto& [name, op] : known)
    if (std::string problem = gradient_problem(*op, known); !problem.empty()) refuse(path, problem);
  std::vector<std::string>& names = loaded[table];
  for (const auto& [name, op] : known) {
    kernels::register_custom_kernel(name, op);
    register_custom_definition(definition_of(*op));
    names.push_back(name);
  }
  return names;
}

namespace {

// Paths of the libraries in this process.
std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* list) {
        if (library->dlpi_name != nullptr && *library->dlpi_name != '\0')
          static_cast<std::vector<std::string>*>(list)->emplace_back(library->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

// Returns the first refusal: one library that cannot be used does not hide the others.
std::optional<Error> register_loaded_libraries() {
  std::optional<Error> refused;
  for (const std::string& path : loaded_libraries()) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) continue;
    const void* entry = dlsym(library, "ipu_custom_ops");
    // Its own: dlsym looks into libraries it depends on, too.
    Dl_info of{};
    const bool is_own =
        entry != nullptr && dladdr(entry, &of) != 0 && of.dli_fname != nullptr && path == of.dli_fname;
    dlclose(library);
    if (!is_own) continue;
    try {
      load_custom_ops(path);
    } catch (const Error& error) {
      if (!refused) refused = error;
    }
  }
  return refused;
}

}  // namespace

std::string find_custom_op(const std::string& domain, const std::string& name, int64_t version) {
  const std::string full = full_name(domain, name, version);
  const auto is_there = [&] { return full == kFastGather || kernels::find_custom_kernel(full) != nullptr; };
  if (version >= 1 && is_there()) return full;
  const std::optional<Error> refused = register_loaded_libraries();
  if (version >= 1 && is_there()) return full;
  if (refused) throw *refused;
  std::string known = fmt::format("\n    {}", kFastGather);
  for (const OpDef* op : custom_ops()) known += "\n    " + op->name;
  throw Error(
      ErrorCode::kUnsupportedOps,
      fmt::format("unknown custom operation: name '{}', domain '{}', version {}. Known are "
                  "(domain.name, from version 2 on with .vVERSION):{}\n"
                  "  try:      ctypes.cdll.LoadLibrary(path) of the library that defines it; a library "
                  "built for Poplar has to be ported first (docs/custom_ops.md)",
                  name, domain, version, known));
}

}  // namespace ipu::ops
