#include "ops/recurrent/stepwise_layers.h"

#include <fmt/core.h>

#include <map>

#include "support/error.h"

namespace ipu::ops {
namespace {

class Steps {
 public:
  Steps(NodeImportCall& call, const RecurrentLayer& layer, const Stepwise& how)
      : call_(call), layer_(layer), how_(how), hidden_(layer.recurrent_weight->type().shape[1]) {}

  RecurrentState run(ir::Value* x) {
    const Shape shape = x->type().shape;  // [steps, batch, inputs]
    const ir::Type state{x->type().dtype, {shape[1], hidden_}};
    ir::Value* h = layer_.h0 != nullptr ? layer_.h0 : call_.builder().splat(state, 0.0);
    ir::Value* c = how_.cell != Cell::kLstm ? nullptr
                   : layer_.c0 != nullptr   ? layer_.c0
                                            : call_.builder().splat(state, 0.0);
    ir::Value* parts = layer_.input_bias == nullptr
                           ? call_.op("linear", {x, layer_.input_weight})
                           : call_.op("linear", {x, layer_.input_weight, layer_.input_bias});
    std::vector<ir::Value*> rows;
    for (int64_t t = 0; t < shape[0]; ++t) {
      ir::Value* part = sliced(call_, parts, 0, t, 1);
      part = reshaped(call_, part, {shape[1], part->type().shape[2]});
      ir::Value *next = nullptr, *next_c = nullptr;
      if (how_.cell == Cell::kLstm) {
        next_c = cell(part, h, c);
        next = mul(activated(0, gate(sum_, 1)), activated(2, next_c));
      } else {
        next = how_.cell == Cell::kGru ? gru(part, h) : activated(0, add(part, product(h)));
      }
      ir::Value* row = next;
      if (how_.lengths != nullptr) {
        // Behind its end a sequence keeps its state and gives zeros.
        ir::Value* runs =
            call_.op("greater", {how_.lengths, call_.builder().scalar(DType::kI32, static_cast<double>(t))});
        runs = reshaped(call_, runs, {shape[1], 1});
        row = call_.op("where", {runs, next, call_.builder().scalar(state.dtype, 0.0)});
        next = call_.op("where", {runs, next, h});
        if (next_c != nullptr) next_c = call_.op("where", {runs, next_c, c});
      }
      h = next;
      c = next_c;
      rows.push_back(reshaped(call_, row, {1, shape[1], hidden_}));
    }
    return {concatenated(call_, rows, 0), h, c};
  }

 private:
  ir::Value* add(ir::Value* a, ir::Value* b) { return call_.op("add", {a, b}); }
  ir::Value* mul(ir::Value* a, ir::Value* b) { return call_.op("mul", {a, b}); }
  ir::Value* gate(ir::Value* sums, int64_t number) {
    return sliced(call_, sums, 1, number * hidden_, hidden_);
  }

  ir::Value* activated(size_t number, ir::Value* x) {
    const std::string& name = how_.activations[number];
    if (name == "Gelu") return call_.op("gelu", {x}, {{"approximate", std::string("tanh")}});
    if (name == "Swish") return mul(x, call_.op("sigmoid", {x}));
    if (name.starts_with("Softmax")) return call_.op("softmax", {x}, {{"dim", int64_t{1}}});
    static const std::map<std::string, std::string> kKinds = {
        {"Sigmoid", "sigmoid"}, {"Tanh", "tanh"}, {"Relu", "relu"}};
    return call_.op(kKinds.at(name), {x});
  }

  ir::Value* product(ir::Value* h) {
    return layer_.recurrent_bias == nullptr
               ? call_.op("linear", {h, layer_.recurrent_weight})
               : call_.op("linear", {h, layer_.recurrent_weight, layer_.recurrent_bias});
  }

  ir::Value* cell(ir::Value* part, ir::Value* h, ir::Value* c) {
    sum_ = add(part, product(h));
    return add(mul(activated(0, gate(sum_, 2)), c),
               mul(activated(0, gate(sum_, 0)), activated(1, gate(sum_, 3))));
  }

  ir::Value* gru(ir::Value* part, ir::Value* h) {
    ir::Value* from_state = product(h);
    ir::Value* update = activated(0, add(gate(part, 0), gate(from_state, 0)));
    ir::Value* reset = activated(0, add(gate(part, 1), gate(from_state, 1)));
    ir::Value* last = nullptr;
    if (how_.linear_before_reset) {
      last = mul(reset, gate(from_state, 2));
    } else {
      ir::Value* weight = sliced(call_, layer_.recurrent_weight, 0, 2 * hidden_, hidden_);
      ir::Value* kept = mul(reset, h);
      last = layer_.recurrent_bias == nullptr
                 ? call_.op("linear", {kept, weight})
                 : call_.op("linear",
                            {kept, weight, sliced(call_, layer_.recurrent_bias, 0, 2 * hidden_, hidden_)});
    }
    ir::Value* made = activated(1, add(gate(part, 2), last));
    return add(made, mul(update, call_.op("sub", {h, made})));
  }

  NodeImportCall& call_;
  const RecurrentLayer& layer_;
  const Stepwise& how_;
  int64_t hidden_;
  ir::Value* sum_ = nullptr;  // of the step, for its last gate
};

}  // namespace

RecurrentState stepwise_layer(NodeImportCall& call, ir::Value* x, const RecurrentLayer& layer,
                              const Stepwise& how) {
  return Steps(call, layer, how).run(x);
}

bool is_known_activation(const std::string& name) {
  for (const char* known :
       {"Sigmoid", "Tanh", "Relu", "Gelu", "Swish", "Softmax", "SoftmaxStable", "SoftmaxScaled"})
    if (name == known) return true;
  return false;
}

}  // namespace ipu::ops
