#include "ops/definition/importers.h"

#include <fmt/core.h>

#include <optional>
#include <utility>

#include "ops/definition/aten_import_call.h"
#include "ops/definition/node_import_call.h"
#include "ops/definition/op_def.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

using Name = std::pair<std::string, std::string>;  // domain, type

// Function-local: importers register from static objects of many files, in any order.
std::map<Name, std::map<int, Importer>>& registry() {  // by the first version
  static std::map<Name, std::map<int, Importer>> importers;
  return importers;
}

// --- importers that follow from names

Attribute attribute_from(ImportCall& call, std::string_view name, const Attribute& like) {
  if (std::holds_alternative<bool>(like)) return call.boolean(name);
  if (std::holds_alternative<int64_t>(like)) return call.integer(name);
  if (std::holds_alternative<double>(like)) return call.real(name);
  if (std::holds_alternative<std::string>(like)) return call.text(name);
  if (std::holds_alternative<std::vector<int64_t>>(like)) return call.integers(name);
  call.unsupported(fmt::format("argument '{}' has no plain importer", name));
}

// Operands go by their names, or, where torch has other names, by place: it calls the first "self", the
// second "other".
std::string aten_operand(AtenImportCall& call, const std::string& name, size_t place) {
  static constexpr const char* kPlaces[] = {"self", "other"};
  return place < 2 && !call.has(name) && call.has(kPlaces[place]) ? kPlaces[place] : name;
}

void import_by_name(AtenImportCall& call, const OpDef& def,
                    const std::map<std::string, std::string>& rename) {
  auto aten_name = [&](const std::string& ours) {
    auto at = rename.find(ours);
    if (at != rename.end()) return at->second;
    if (call.has(ours)) return ours;
    // What torch calls the operands of almost all operators.
    if (ours == "x" || ours == "a") return std::string("self");
    return ours == "b" ? std::string("other") : ours;
  };
  const ir::Type wanted = call.result_type(0);
  std::vector<ir::Value*> operands;
  for (const OperandDef& operand : def.operands) {
    const std::string name = aten_operand(call, aten_name(operand.name), operands.size());
    if (operand.variadic) {
      for (ir::Value* value : call.tensors(name)) operands.push_back(value);
    } else if (!call.has(name)) {
      operands.push_back(nullptr);
    } else if (!call.is_tensor(name)) {
      operands.push_back(call.operand(name, wanted.dtype));
    } else {
      ir::Value* value = call.tensor(name);
      const DType dtype = value->type().dtype;
      // torch computes in the dtype of the result; operands that cannot have it (indices, masks) stay as they
      // are.
      if ((operand.dtypes & bit(wanted.dtype)) != 0 &&
          (def.has(kElementwise) || (operand.dtypes & bit(dtype)) == 0))
        value = call.cast(value, wanted.dtype);
      operands.push_back(value);
    }
  }
  while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
  Attributes attributes;
  for (const AttributeDef& attribute : def.attributes) {
    IPU_CHECK(
        attribute.fallback.has_value(),
        fmt::format("attribute '{}' of '{}' is required and has no kind to import it by; write an importer",
                    attribute.name, def.name));
    const std::string name = aten_name(attribute.name);
    if (call.has(name)) attributes.set(attribute.name, attribute_from(call, name, *attribute.fallback));
  }
  const ir::Op* op = build_op(call.builder(), def.name, operands, std::move(attributes));
  for (int i = 0; i < op->result_count() && i < call.result_count(); ++i)
    call.set_result(i, call.cast(op->result(i), call.result_type(i).dtype));
}

// Operands in order, those after the last given one left out.
void import_by_position(NodeImportCall& call, const OpDef& def,
                        const std::map<std::string, std::string>& rename) {
  std::vector<ir::Value*> operands;
  const int given = call.operand_count();
  const int taken = static_cast<int>(def.operands.size());
  const bool variadic = taken > 0 && def.operands.back().variadic;
  if (given > taken && !variadic)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("too many operands: {} has {}; it takes {}.", call.described(), given, taken));
  for (int i = 0; i < std::max(given, taken); ++i) {
    const OperandDef& operand = def.operands[static_cast<size_t>(std::min(i, taken - 1))];
    const bool is_left_out = !call.has_operand(i) && (operand.optional || operand.variadic);
    if (!is_left_out || i < given) operands.push_back(is_left_out ? nullptr : call.operand(i));
  }
  if (operands.empty() && taken > 0 && !def.operands[0].optional) call.operand(0);  // says that it is missing
  Attributes attributes;
  for (const AttributeDef& attribute : def.attributes) {
    const auto at = rename.find(attribute.name);
    const std::string& name = at == rename.end() ? attribute.name : at->second;
    IPU_CHECK(
        attribute.fallback.has_value(),
        fmt::format("attribute '{}' of '{}' is required and has no kind to import it by; write an importer",
                    attribute.name, def.name));
    if (call.has(name)) attributes.set(attribute.name, attribute_from(call, name, *attribute.fallback));
  }
  const ir::Op* op = build_op(call.builder(), def.name, operands, std::move(attributes));
  for (int i = 0; i < op->result_count() && i < call.result_count(); ++i) call.set_result(i, op->result(i));
}

}  // namespace

std::string_view canonical_domain(std::string_view domain) { return domain.empty() ? kOnnx : domain; }

void register_importer(Importer importer) {
  const VersionRange range = importer.versions;
  IPU_CHECK(range.since <= range.until,
            fmt::format("the importer of {}::{} is for versions {} to {}", importer.domain, importer.type,
                        range.since, range.until));
  std::map<int, Importer>& versions =
      registry()[{std::string(canonical_domain(importer.domain)), importer.type}];
  for (const auto& [since, other] : versions)
    IPU_CHECK(other.versions.until < range.since || range.until < other.versions.since,
              importer.domain == kAten
                  ? fmt::format("{}::{} has two importers", importer.domain, importer.type)
                  : fmt::format("{}::{} has two importers: one for versions {} to {}, one for {} to {}",
                                importer.domain, importer.type, other.versions.since, other.versions.until,
                                range.since, range.until));
  importer.domain = canonical_domain(importer.domain);
  versions.emplace(range.since, std::move(importer));
}

void register_aten_importer(std::string overload, AtenImporter importer) {
  register_importer({kAten, std::move(overload), {0, 0}, std::move(importer)});
}

void register_onnx_importer(std::string type, VersionRange versions, NodeImporter importer) {
  register_importer({kOnnx, std::move(type), versions, std::move(importer)});
}

Importer tensorflow_importer(std::string type, NodeImporter importer, std::string domain) {
  // "N" counts operands, "num" and "num_split" results; "validate_shape", "use_locking" and the like say how TensorFlow runs it.
  static constexpr const char* kIgnored[] = {
      "T",     "U",      "Tidx",    "Tshape",       "Tperm",      "Tindices",    "Tparams",
      "Taxis", "Tdim",   "Tlen",    "Tpaddings",    "Tmultiples", "TI",          "Tnumsegments",
      "Index", "Tshift", "Tlabels", "Tblock_shape", "Tcrops",     "SrcT",        "Tsegmentids",
      "Tpad",  "N",      "dtype",   "Tboxes",       "num_split",  "use_locking", "use_cudnn_on_gpu"};
  NodeImporter import = [importer = std::move(importer)](NodeImportCall& call) {
    for (const char* name : kIgnored) call.ignore(name);
    importer(call);
  };
  return {std::move(domain), std::move(type), {}, std::move(import)};
}

void register_tensorflow_importer(std::string type, NodeImporter importer, std::string domain) {
  register_importer(tensorflow_importer(std::move(type), std::move(importer), std::move(domain)));
}

const Importer* find_importer(std::string_view domain, std::string_view type, int version) {
  const auto at = registry().find({std::string(canonical_domain(domain)), std::string(type)});
  if (at == registry().end()) return nullptr;
  auto next = at->second.upper_bound(version);
  if (next == at->second.begin()) return nullptr;
  const Importer& importer = std::prev(next)->second;
  return importer.versions.has(version) ? &importer : nullptr;
}

const AtenImporter* find_aten_importer(std::string_view overload) {
  const Importer* importer = find_importer(kAten, overload, 0);
  return importer == nullptr ? nullptr : std::get_if<AtenImporter>(&importer->import);
}

std::vector<const Importer*> importers_of(std::string_view domain, std::string_view type) {
  std::vector<const Importer*> list;
  const auto at = registry().find({std::string(canonical_domain(domain)), std::string(type)});
  if (at == registry().end()) return list;
  for (const auto& [since, importer] : at->second) list.push_back(&importer);
  return list;
}

std::vector<const Importer*> all_importers() {
  std::vector<const Importer*> list;
  for (const auto& [name, versions] : registry())
    for (const auto& [since, importer] : versions) list.push_back(&importer);
  return list;
}

std::vector<std::string> aten_overloads() {
  std::vector<std::string> overloads;
  for (const Importer* importer : all_importers())
    if (importer->domain == kAten) overloads.push_back(importer->type);
  return overloads;
}

AtenImporter aten_importer_of(std::string kind, std::map<std::string, std::string> rename) {
  return [kind = std::move(kind), rename = std::move(rename)](AtenImportCall& call) {
    import_by_name(call, get_op(kind), rename);
  };
}

NodeImporter node_importer_of(std::string kind, std::map<std::string, std::string> rename) {
  return [kind = std::move(kind), rename = std::move(rename)](NodeImportCall& call) {
    import_by_position(call, get_op(kind), rename);
  };
}

}  // namespace ipu::ops
