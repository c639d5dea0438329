// torch's recurrent cells: one step, said with products and elementwise ops. Their weights are kept packed and
// the rest runs as one op, so a loop over cells needs no kernel of its own; layers have one (lstm_layer.cc and
// others).
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

class Cell {
 public:
  explicit Cell(AtenImportCall& call) : call_(call) {}

  ir::Value* op(std::string_view kind, std::initializer_list<ir::Value*> operands) {
    return call_.op(kind, operands);
  }
  ir::Value* from_input() { return product(call_.tensor("input"), "w_ih", "b_ih"); }
  ir::Value* from_state(ir::Value* state) { return product(state, "w_hh", "b_hh"); }
  // Part `index` of `count` along the last dimension.
  ir::Value* part(ir::Value* value, int64_t index, int64_t count) {
    const Shape& shape = value->type().shape;
    const int64_t size = shape.back() / count;
    return sliced(call_, value, static_cast<int64_t>(shape.size()) - 1, index * size, size);
  }

 private:
  ir::Value* product(ir::Value* x, std::string_view weight, std::string_view bias) {
    ir::Value* b = call_.optional_tensor(bias);
    return b == nullptr ? op("linear", {x, call_.tensor(weight)})
                        : op("linear", {x, call_.tensor(weight), b});
  }
  AtenImportCall& call_;
};

void import_lstm_cell(AtenImportCall& call) {
  Cell cell(call);
  const std::vector<ir::Value*> before = call.tensors("hx");
  ir::Value* parts = cell.op("add", {cell.from_input(), cell.from_state(before.at(0))});
  auto gate = [&](int64_t index, std::string_view function) {
    return cell.op(function, {cell.part(parts, index, 4)});
  };
  ir::Value* kept = cell.op("mul", {gate(1, "sigmoid"), before.at(1)});
  ir::Value* c = cell.op("add", {kept, cell.op("mul", {gate(0, "sigmoid"), gate(2, "tanh")})});
  call.set_result(0, cell.op("mul", {gate(3, "sigmoid"), cell.op("tanh", {c})}));
  call.set_result(1, c);
}

void import_gru_cell(AtenImportCall& call) {
  Cell cell(call);
  ir::Value* before = call.tensor("hx");
  ir::Value *x = cell.from_input(), *state = cell.from_state(before);
  auto gate = [&](int64_t index) {
    return cell.op("sigmoid", {cell.op("add", {cell.part(x, index, 3), cell.part(state, index, 3)})});
  };
  ir::Value* scaled = cell.op("mul", {gate(0), cell.part(state, 2, 3)});
  ir::Value* made = cell.op("tanh", {cell.op("add", {cell.part(x, 2, 3), scaled})});
  call.set_result(0, cell.op("add", {cell.op("mul", {cell.op("sub", {before, made}), gate(1)}), made}));
}

void import_rnn_cell(AtenImportCall& call, std::string_view function) {
  Cell cell(call);
  ir::Value* sum = cell.op("add", {cell.from_input(), cell.from_state(call.tensor("hx"))});
  call.set_result(0, cell.op(function, {sum}));
}

struct CellImporters {
  CellImporters() {
    register_aten_importer("lstm_cell", import_lstm_cell);
    register_aten_importer("gru_cell", import_gru_cell);
    register_aten_importer("rnn_tanh_cell", [](AtenImportCall& call) { import_rnn_cell(call, "tanh"); });
    register_aten_importer("rnn_relu_cell", [](AtenImportCall& call) { import_rnn_cell(call, "relu"); });
  }
};
const CellImporters cell_importers;

}  // namespace
}  // namespace ipu::ops
