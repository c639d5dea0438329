// Importers of TensorLists as tensors (frontends/tensorflow/lists.h): operand or result i is the stack of entries, i + 1 the
// number of those that are there, i32[]. The type of the entries and the room are noted under the number of the list.
#include <fmt/core.h>

#include <optional>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

// The stack of a list of which too little is known yet, as no list of a unit is.
const ir::Type kUnknown{DType::kU16, {0}};

std::string of_list(NodeImportCall& call, const char* what) {
  return fmt::format("list {} {}", call.text("list"), what);
}

std::optional<ir::Type> entry_type(NodeImportCall& call) {
  const std::vector<int64_t>* noted = call.noted(of_list(call, "entry"));
  if (noted == nullptr) return std::nullopt;
  return ir::Type{static_cast<DType>(noted->front()), {noted->begin() + 1, noted->end()}};
}

std::optional<int64_t> room(NodeImportCall& call) {
  const std::vector<int64_t>* noted = call.noted(of_list(call, "room"));
  return noted == nullptr ? std::nullopt : std::optional<int64_t>(noted->front());
}

void note_entry(NodeImportCall& call, const ir::Type& type) {
  std::vector<int64_t> noted{static_cast<int64_t>(type.dtype)};
  noted.insert(noted.end(), type.shape.begin(), type.shape.end());
  call.note(of_list(call, "entry"), std::move(noted));
}

bool is_known(NodeImportCall& call) {
  const bool has_entry = entry_type(call).has_value(), has_room = room(call).has_value();
  return has_entry && has_room;
}

// The type of the device.
std::optional<DType> named_type(const std::string& name) {
  return name == "float64" ? DType::kF32 : dtype_of_tensorflow(name);
}

// What operand `i` says of the shape of entries, unless a part of it is open. A scalar says nothing.
void note_stated_entry(NodeImportCall& call, int i) {
  const ConstantPtr stated = call.constant(i);
  const std::optional<DType> dtype = named_type(call.text("element_dtype", ""));
  if (stated == nullptr || !dtype || stated->shape.size() != 1) return;
  const Shape shape = integers_of(*stated);
  for (const int64_t extent : shape)
    if (extent < 0) return;
  note_entry(call, {*dtype, shape});
}

// The rounds in which each of the nodes that append to the list runs, all together; at least `least`.
void note_appended(NodeImportCall& call, int64_t least) {
  int64_t all = 0;
  for (const std::string& loops : call.texts("pushes")) {
    int64_t times = 1;
    for (size_t at = 0; at < loops.size();) {
      const size_t end = std::min(loops.find(',', at), loops.size());
      const std::vector<int64_t>* rounds = call.noted("loop " + loops.substr(at, end - at));
      if (rounds == nullptr) return;
      if (__builtin_mul_overflow(times, rounds->front(), &times)) return;
      at = end + 1;
    }
    if (__builtin_add_overflow(all, times, &all)) return;
  }
  call.note(of_list(call, "room"), {std::max(all, least)});
}

// A list with so many entries, all of them zero.
void set_new_list(NodeImportCall& call, int64_t entries) {
  const std::optional<ir::Type> entry = entry_type(call);
  const std::optional<int64_t> most = room(call);
  ir::Builder& builder = call.builder();
  if (entry && most) {
    Shape shape = entry->shape;
    shape.insert(shape.begin(), *most);
    call.set_result(0, builder.splat({entry->dtype, shape}, 0.0));
  } else {
    call.unsupported_at_the_end(
        !most
            ? "a TensorList whose length is not known: give the loop that fills it a bound, maximum_iterations, or a "
              "condition on a counter that starts at a constant"
            : "a TensorList of which the shape of entries is not known: give TensorArray an element_shape");
    call.set_result(0, builder.splat(kUnknown, 0.0));
  }
  const auto count = static_cast<int32_t>(entries);
  call.set_constant(1, ir::make_constant(DType::kI32, {}, &count));
}

void ignore_types(NodeImportCall& call) {
  for (const char* name : {"element_dtype", "shape_type", "Tshape", "num_elements", "list", "grows"})
    call.ignore(name);
}

void import_empty(NodeImportCall& call) {
  ignore_types(call);
  note_stated_entry(call, 0);
  const ConstantPtr most = call.constant(1);
  const int64_t stated = most == nullptr ? -1 : integers_of(*most).at(0);
  if (stated >= 0) {
    call.ignore("pushes");
    call.note(of_list(call, "room"), {stated});
  } else {
    note_appended(call, 0);
  }
  set_new_list(call, 0);
}

void import_absent(NodeImportCall& call) {
  ignore_types(call);
  set_new_list(call, false);
}

void import_reserve(NodeImportCall& call) {
  ignore_types(call);
  call.ignore("pushes");
  note_stated_entry(call, 0);
  std::optional<int64_t> stated;
  if (const ConstantPtr count = call.constant(1)) {
    stated = integers_of(*count).at(0);
    if (*stated < 0) call.unsupported("a TensorList of a negative length");
    if (call.texts("pushes").empty()) call.note(of_list(call, "room"), {*stated});
  }
  if (stated) note_appended(call, *stated);
  set_new_list(call, stated.value_or(room(call).value_or(0)));
}

void set_filled_list(NodeImportCall& call, ir::Value* stack) {
  const auto count = static_cast<int32_t>(stack->type().shape[0]);
  call.set_result(0, stack);
  call.set_constant(1, ir::make_constant(DType::kI32, {}, &count));
}

void import_from_tensor(NodeImportCall& call) {
  ignore_types(call);
  call.ignore("pushes");
  call.has_operand(1);
  ir::Value* stack = call.operand(0);
  const Shape& shape = stack->type().shape;
  if (shape.empty()) call.unsupported("a TensorList of a number");
  note_entry(call, {stack->type().dtype, {shape.begin() + 1, shape.end()}});
  call.note(of_list(call, "room"), {shape[0]});
  set_filled_list(call, stack);
}

[[noreturn]] void unknown_entries(NodeImportCall& call) {
  call.unsupported(
      "a TensorList of which the shape of entries is not known: give TensorArray an element_shape");
}

ir::Value* place(NodeImportCall& call, ir::Value* index) {
  return reshaped(call, call.cast(index, DType::kI32), {1});
}

// The stack with another entry at a place; itself as long as nothing is known of the list.
ir::Value* with_entry(NodeImportCall& call, ir::Value* stack, ir::Value* index, ir::Value* item) {
  if (item->type() != kUnknown) note_entry(call, item->type());
  if (!is_known(call)) return stack;
  if (const ir::Type entry = *entry_type(call); entry != item->type())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("type mismatch: {} puts {} into a list of {}.", call.described(),
                            to_string(item->type()), to_string(entry)));
  Shape shape = item->type().shape;
  shape.insert(shape.begin(), 1);
  return call.op("index_copy", {stack, place(call, index), reshaped(call, item, shape)},
                 {{"dim", int64_t{0}}});
}

ir::Value* entry_at(NodeImportCall& call, ir::Value* stack, ir::Value* index) {
  if (!is_known(call)) unknown_entries(call);
  return reshaped(call, call.op("index_select", {stack, place(call, index)}, {{"dim", int64_t{0}}}),
                  entry_type(call)->shape);
}

ir::Value* moved_count(NodeImportCall& call, ir::Value* count, double by) {
  return call.op("add", {count, call.builder().scalar(DType::kI32, by)});
}

void import_set_item(NodeImportCall& call) {
  ignore_types(call);
  ir::Value *stack = call.operand(0), *count = call.operand(1), *index = call.operand(2);
  call.set_result(0, with_entry(call, stack, index, call.operand(3)));
  if (flag(call, "resize_if_index_out_of_bounds")) {
    const Term behind = Term(call, reshaped(call, call.cast(index, DType::kI32), {})) + 1.0;
    count = maximum(Term(call, count), behind).value();
  }
  call.set_result(1, count);
}

void import_get_item(NodeImportCall& call) {
  ignore_types(call);
  call.has_operand(3);
  call.operand(1);
  call.set_result(0, entry_at(call, call.operand(0), call.operand(2)));
}

void import_push_back(NodeImportCall& call) {
  ignore_types(call);
  ir::Value *stack = call.operand(0), *count = call.operand(1);
  call.set_result(0, with_entry(call, stack, count, call.operand(2)));
  call.set_result(1, moved_count(call, count, 1.0));
}

void import_pop_back(NodeImportCall& call) {
  ignore_types(call);
  call.has_operand(2);
  ir::Value* count = moved_count(call, call.operand(1), -1.0);
  call.set_result(0, call.operand(0));
  call.set_result(1, count);
  call.set_result(2, entry_at(call, call.operand(0), count));
}

// All entries that are there. How many is known when the unit is compiled: the room, unless the count says otherwise.
ir::Value* entries_of(NodeImportCall& call) {
  if (!is_known(call)) unknown_entries(call);
  ir::Value *stack = call.operand(0), *count = call.operand(1);
  if (stack->type().shape.empty()) unknown_entries(call);
  const int64_t most = stack->type().shape[0];
  if (!flag(call, "grows")) return stack;
  if (const ConstantPtr known = call.constant(1)) {
    const int64_t there = integers_of(*known).at(0);
    return there < 0 || there >= most ? stack : sliced(call, stack, 0, 0, there);
  }
  const Term is_full = Term(call, count) == static_cast<double>(most);
  const std::string message = fmt::format(
      "a TensorList with {{}} entries is made one tensor, which was compiled for {}: shapes inside a unit are static",
      most);
  call.op("assertion", {is_full.value(), count}, {{"message", message}});
  return stack;
}

void import_stack(NodeImportCall& call) {
  call.has_operand(2);
  call.set_result(0, entries_of(call));
  ignore_types(call);
}

// The entries behind each other, and how many rows each has.
void import_concat(NodeImportCall& call) {
  call.ignore("element_shape");
  call.operand_count();
  ir::Value* stack = entries_of(call);
  ignore_types(call);
  Shape shape = stack->type().shape;
  if (shape.size() < 2)
    call.unsupported("a TensorList of numbers, which have no rows to put behind each other");
  const std::vector<int64_t> rows(static_cast<size_t>(shape[0]), shape[1]);
  shape[1] *= shape[0];
  shape.erase(shape.begin());
  call.set_result(0, reshaped(call, stack, shape));
  if (call.has_result(1)) call.set_constant(1, constant_of(rows));
}

// The list with its first entries only: there is room for no more than it was made with.
void import_resize(NodeImportCall& call) {
  ignore_types(call);
  ir::Value *stack = call.operand(0), *before = call.operand(1);
  const bool is_stated = call.constant(2) != nullptr;
  const int64_t stated = is_stated ? operand_integer(call, 2, "size") : 0;
  if (const std::optional<int64_t> most = room(call); is_stated && most && (stated < 0 || stated > *most))
    call.unsupported(fmt::format(
        "a TensorList with room for {} entries made {} long: make it as long from the start", *most, stated));
  const Term wanted{call, is_stated ? call.builder().scalar(DType::kI32, static_cast<double>(stated))
                                    : reshaped(call, call.cast(call.operand(2), DType::kI32), {})};
  if (is_known(call) && !stack->type().shape.empty()) {  // entries that come back are zero
    Shape column(stack->type().shape.size(), 1);
    const Shape one = column;
    column[0] = stack->type().shape[0];
    const Term place{call,
                     call.op("iota", {}, {{"shape", column}, {"dim", int64_t{0}}, {"dtype", DType::kI32}})};
    const Term kept = minimum(Term(call, before), wanted);
    stack = (place < Term(call, reshaped(call, kept.value(), one))).choose(Term(call, stack), 0.0).value();
  }
  call.set_result(0, stack);
  const auto count = static_cast<int32_t>(stated);
  is_stated ? call.set_constant(1, ir::make_constant(DType::kI32, {}, &count))
            : call.set_result(1, wanted.value());
}

// Pieces of a tensor, of equal lengths.
void import_split(NodeImportCall& call) {
  ignore_types(call);
  call.ignore("pushes");
  call.has_operand(1);
  ir::Value* x = call.operand(0);
  const std::vector<int64_t> lengths = operand_sizes(call, 2, "lengths");
  Shape shape = x->type().shape;
  if (lengths.empty() || std::count(lengths.begin(), lengths.end(), lengths[0]) != std::ssize(lengths))
    call.unsupported("pieces of different lengths: shapes of the entries of a TensorList are equal");
  if (shape.empty() || shape[0] != lengths[0] * std::ssize(lengths))
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {} into {} pieces of {} rows.", call.described(),
                            to_string(shape), lengths.size(), lengths[0]));
  shape[0] = lengths[0];
  note_entry(call, {x->type().dtype, shape});
  call.note(of_list(call, "room"), {std::ssize(lengths)});
  shape.insert(shape.begin(), std::ssize(lengths));
  set_filled_list(call, reshaped(call, x, shape));
}

ir::Value* rows_put(NodeImportCall& call, ir::Value* stack, ir::Value* indices, ir::Value* rows) {
  indices = reshaped(call, call.cast(indices, DType::kI32), {indices->type().elements()});
  return call.op("index_copy", {stack, indices, rows}, {{"dim", int64_t{0}}});
}

// Version 2 states the length; otherwise it follows from constant indices.
void import_scatter(NodeImportCall& call, bool has_length) {
  ignore_types(call);
  call.ignore("pushes");
  call.has_operand(2);
  ir::Value* rows = call.operand(0);
  Shape shape = rows->type().shape;
  int64_t length = has_length ? operand_integer(call, 3, "num_elements") : -1;
  if (length < 0)
    for (const int64_t index : call.operand_integers(1, "indices")) length = std::max(length, index + 1);
  if (shape.empty()) call.unsupported("a TensorList of a number");
  length = std::max<int64_t>(length, 0);
  note_entry(call, {rows->type().dtype, {shape.begin() + 1, shape.end()}});
  call.note(of_list(call, "room"), {length});
  shape[0] = length;
  ir::Value* zeros = call.builder().splat({rows->type().dtype, shape}, 0.0);
  set_filled_list(call, rows_put(call, zeros, call.operand(1), rows));
}

void import_scatter_into(NodeImportCall& call) {
  ignore_types(call);
  ir::Value *stack = call.operand(0), *count = call.operand(1), *rows = call.operand(2),
            *indices = call.operand(3);
  const Shape& shape = rows->type().shape;
  if (shape.empty()) call.unsupported("a TensorList of a number");
  note_entry(call, {rows->type().dtype, {shape.begin() + 1, shape.end()}});
  call.set_result(0, is_known(call) ? rows_put(call, stack, indices, rows) : stack);
  call.set_result(1, count);
}

void import_gather(NodeImportCall& call) {
  ignore_types(call);
  call.has_operand(3);
  if (!is_known(call)) unknown_entries(call);
  ir::Value* indices = call.cast(call.operand(2), DType::kI32);
  ir::Value* entries =
      call.op("index_select", {call.operand(0), reshaped(call, indices, {indices->type().elements()})},
              {{"dim", int64_t{0}}});
  call.set_result(0, entries);
}

void import_length(NodeImportCall& call) {
  ignore_types(call);
  call.set_result(0, call.operand(1));
  if (const ConstantPtr known = call.constant(1)) call.set_constant(0, known);
}

void import_element_shape(NodeImportCall& call) {
  ignore_types(call);
  call.operand_count();
  const std::optional<ir::Type> entry = entry_type(call);
  if (!entry) unknown_entries(call);
  call.set_constant(0, constant_of(entry->shape));
}

void import_sum(NodeImportCall& call) {
  ignore_types(call);
  ir::Value* sum = call.operand(0);
  for (int i = 2; i < call.operand_count(); i += 2) sum = call.op("add", {sum, call.operand(i)});
  call.set_result(0, sum);
  call.set_result(1, call.operand(1));
}

void import_zeros(NodeImportCall& call) {
  ignore_types(call);
  call.set_result(0, call.builder().splat(call.operand(0)->type(), 0.0));
  call.set_result(1, call.operand(1));
}

void import_same(NodeImportCall& call) {
  ignore_types(call);
  call.set_result(0, call.operand(0));
  call.set_result(1, call.operand(1));
}

struct ListImporters {
  ListImporters() {
    register_tensorflow_importer("EmptyTensorList", import_empty);
    register_tensorflow_importer("TensorListReserve", import_reserve);
    register_tensorflow_importer("TensorListFromTensor", import_from_tensor);
    register_tensorflow_importer("TensorListSetItem", import_set_item);
    register_tensorflow_importer("TensorListGetItem", import_get_item);
    register_tensorflow_importer("TensorListPushBack", import_push_back);
    register_tensorflow_importer("TensorListPopBack", import_pop_back);
    register_tensorflow_importer("TensorListStack", import_stack);
    register_tensorflow_importer("TensorListGather", import_gather);
    register_tensorflow_importer("TensorListConcat", import_concat);
    register_tensorflow_importer("TensorListConcatV2", import_concat);
    register_tensorflow_importer("TensorListResize", import_resize);
    register_tensorflow_importer("TensorListSplit", import_split);
    register_tensorflow_importer("TensorListScatter", [](NodeImportCall& c) { import_scatter(c, false); });
    register_tensorflow_importer("TensorListScatterV2", [](NodeImportCall& c) { import_scatter(c, true); });
    register_tensorflow_importer("TensorListScatterIntoExistingList", import_scatter_into);
    register_tensorflow_importer("TensorListLength", import_length);
    register_tensorflow_importer("TensorListElementShape", import_element_shape);
    register_tensorflow_importer("ListSum", import_sum, kIpu);
    register_tensorflow_importer("ListZeros", import_zeros, kIpu);
    register_tensorflow_importer("ListSame", import_same, kIpu);
    register_tensorflow_importer("ListAbsent", import_absent, kIpu);
  }
};
const ListImporters list_importers;

}  // namespace
}  // namespace ipu::ops
