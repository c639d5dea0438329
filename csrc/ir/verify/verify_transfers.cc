// Rules of ops that touch the tables of a module, move values, or write.
#include <fmt/core.h>

#include "ir/structure.h"
#include "ir/verify/verifier_rules.h"

namespace ipu::ir {

void Verifier::variable_access(const Op& op) {
  const std::string* name = symbol(op, "variable");
  if (name == nullptr) return;
  const Variable* v = module_.find_variable(*name);
  if (v == nullptr) return report(fmt::format("variable {} does not exist", at(*name)));
  if (!entry_graphs_.contains(graph_))
    report(fmt::format("only entry graphs touch variables; pass the value of {} as an input", at(*name)));
  transfer(op, op.is(kind::kVariableRead), v->type, "variable " + at(*name));
}

void Verifier::host_access(const Op& op) {
  const std::string* name = symbol(op, "stream");
  if (name == nullptr) return;
  const Stream* s = module_.find_stream(*name);
  if (s == nullptr) return report(fmt::format("stream {} does not exist", at(*name)));
  bool load = op.is(kind::kHostLoad);
  if (load != (s->direction == StreamDirection::kHostToDevice))
    report(fmt::format("stream {} goes from {}", at(*name), load ? "device to host" : "host to device"));
  transfer(op, load, s->type, "stream " + at(*name));
}

void Verifier::ring_access(const Op& op) {
  const std::string* name = symbol(op, "ring");
  if (name == nullptr) return;
  const Ring* r = module_.find_ring(*name);
  if (r == nullptr) return report(fmt::format("ring {} does not exist", at(*name)));
  transfer(op, op.is(kind::kRingPop), r->type, "ring " + at(*name));
}

void Verifier::transfer(const Op& op, bool reads, const Type& type, const std::string& table) {
  if (!counts(op, reads ? 0 : 1, reads ? 1 : 0)) return;
  const Type& own = reads ? op.result()->type() : op.operand(0)->type();
  if (own != type) report(fmt::format("{} is {}, the value {}", table, to_string(type), to_string(own)));
}

void Verifier::io_barrier(const Op& op) { counts(op, 0, 0); }

void Verifier::ipu_copy(const Op& op) {
  if (!counts(op, 1, 1) || !integer(op, "from", 0) || !integer(op, "to", 0)) return;
  same(op, op.operand(0)->type(), op.result()->type());
}

void Verifier::remote_access(const Op& op) {
  const std::string* name = symbol(op, "buffer");
  if (name == nullptr) return;
  const RemoteBuffer* buffer = module_.find_remote_buffer(*name);
  if (buffer == nullptr) return report(fmt::format("remote buffer {} does not exist", at(*name)));
  bool load = op.is(kind::kRemoteLoad);
  int data = load ? 0 : 1;
  bool has_offset = op.operand_count() == data + 1;
  if (!counts(op, data + (has_offset ? 1 : 0), load ? 1 : 0)) return;
  const Type& own = load ? op.result()->type() : op.operand(0)->type();
  if (own != buffer->type)
    report(fmt::format("an entry of {} is {}, the value {}", at(*name), to_string(buffer->type),
                       to_string(own)));
  if (has_offset) {
    const Type& offset = op.operand(data)->type();
    if ((offset.dtype != DType::kI32 && offset.dtype != DType::kU32) || offset.elements() != 1)
      report("the offset is one i32 or u32");
  } else if (integer(op, "entry", 0) && op.attributes.integer("entry") >= buffer->entries) {
    report(fmt::format("entry {} of {}, which has {}", op.attributes.integer("entry"), at(*name),
                       buffer->entries));
  }
}

void Verifier::constant(const Op& op) {
  if (!counts(op, 0, 1)) return;
  const Attribute* value = op.attributes.find("value");
  if (form_ == Form::kRead && value != nullptr && std::holds_alternative<std::string>(*value))
    return;  // a hash
  const auto* data = value ? std::get_if<ConstantPtr>(value) : nullptr;
  if (data == nullptr || *data == nullptr) return report("attribute 'value' is dense<...>");
  same(op, Type{(*data)->dtype, (*data)->shape}, op.result()->type());
}

void Verifier::seed(const Op& op) {
  if (counts(op, 0, 1) && op.result()->type() != Type{DType::kU32, {2}}) report("the result is u32[2]");
}

void Verifier::replica_number(const Op& op) {
  if (counts(op, 0, 1) && op.result()->type() != Type{DType::kI32, {}}) report("the result is i32[]");
}

void Verifier::write(const Op& op) {
  if (!counts(op, 2, 0)) return;
  const Type& target = op.operand(0)->type();
  Type region = target;
  for (const char* name : {"starts", "sizes", "steps"}) {
    const Attribute* value = op.attributes.find(name);
    if (value == nullptr && !op.attributes.has("sizes")) continue;
    const auto* list = value ? std::get_if<std::vector<int64_t>>(value) : nullptr;
    if (list == nullptr || list->size() != target.shape.size())
      return report(fmt::format("attribute '{}' is a list of {} integers", name, target.shape.size()));
    if (std::string_view(name) == "sizes") region.shape = *list;
  }
  if (op.operand(1)->type() != region)
    report(
        fmt::format("the region is {}, the source {}", to_string(region), to_string(op.operand(1)->type())));
}

}  // namespace ipu::ir
