// Random functional modules: nested loops and branches, views, in-place candidates, state, several IPUs, and, when
// asked for, graphs that are called from many places, most of them as subroutines.
// Shared by the tests that need many different programs.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "ir/structure.h"
#include "ir/subroutine.h"
#include "ops/definition/build.h"

namespace ipu::testing_random {

using ir::Value;

inline const ir::Type kType{DType::kF32, {4, 6}};

class RandomProgram {
 public:
  RandomProgram(uint64_t seed, int ipus, bool has_calls = false)
      : random_(seed), ipus_(ipus), has_calls_(has_calls) {}

  std::unique_ptr<ir::Module> make() {
    module_ = std::make_unique<ir::Module>();
    ir::Graph* main = module_->add_graph("main");
    module_->entry_points["main"] = "main";
    ir::Builder b(main);
    std::vector<Value*> pool;
    std::vector<ir::Variable*> variables;
    for (int i = 0; i < 3; ++i) {
      ir::Variable v;
      v.name = "v" + std::to_string(i);
      v.type = kType;
      v.ipu = pick(ipus_);
      variables.push_back(&module_->add_variable(v));
      b.settings.ipu = v.ipu;
      pool.push_back(b.read_variable(*variables.back()));
    }
    for (int i = 0; i < 2; ++i) {
      ir::Stream s;
      s.name = "x" + std::to_string(i);
      s.type = kType;
      b.settings.ipu = pick(ipus_);
      pool.push_back(b.host_load(module_->add_stream(s)));
    }
    fill(b, pool, 8 + pick(16), 2, nullptr, -1);
    for (int i = 0; i < 3; ++i) {
      b.settings.ipu = variables[i]->ipu;
      if (pick(4) != 0) b.assign_variable(*variables[i], any(pool));
      if (pick(3) == 0) fill(b, pool, 3, 1, nullptr, -1);
    }
    for (int i = 0; i < 3; ++i) {
      ir::Stream s;
      s.name = "y" + std::to_string(i);
      s.type = kType;
      s.direction = ir::StreamDirection::kDeviceToHost;
      b.settings.ipu = pick(ipus_);
      b.host_store(module_->add_stream(s), any(pool));
    }
    return std::move(module_);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  Value* any(const std::vector<Value*>& pool) {  // late values more often
    int n = static_cast<int>(pool.size());
    return pool[pick(2) == 0 ? n - 1 - pick(std::min(n, 4)) : pick(n)];
  }
  Value* op(ir::Builder& b, std::string_view kind, std::initializer_list<Value*> operands,
            Attributes attributes = {}) {
    return ops::build(b, kind, operands, std::move(attributes));
  }

  // Appends `count` values made of `pool` to it. `index`: of the loop around; `only_ipu` >= 0: all ops go
  // there.
  void fill(ir::Builder& b, std::vector<Value*>& pool, int count, int depth, Value* index, int only_ipu) {
    for (int i = 0; i < count; ++i) {
      const int ipu = only_ipu >= 0 ? only_ipu : pick(ipus_);
      b.settings.ipu = ipu;
      if (has_calls_ && depth > 0 && pick(5) == 0) {
        make_call(b, pool, depth, only_ipu);
        continue;
      }
      Value *a = any(pool), *c = any(pool);
      Value* r = nullptr;
      switch (pick(depth > 0 ? 16 : 13)) {
        case 0:
          r = op(b, "tanh", {a});
          break;
        case 1:
          r = op(b, "neg", {a});
          break;
        case 2:
          r = op(b, "sin", {op(b, "add", {a, c})});
          break;
        case 3:
          r = op(b, "maximum", {a, c});
          break;
        case 4:
          r = op(b, "mul", {op(b, "sub", {a, c}), b.scalar(DType::kF32, 0.5)});
          break;
        case 5:
          r = op(b, "reshape", {op(b, "transpose", {a}, {{"perm", Shape{1, 0}}})}, {{"shape", Shape{4, 6}}});
          break;
        case 6: {
          Value* column = op(b, "slice", {a},
                             {{"starts", Shape{0, pick(6)}}, {"sizes", Shape{4, 1}}, {"steps", Shape{1, 1}}});
          r = op(b, "expand", {column}, {{"shape", Shape{4, 6}}});
          break;
        }
        case 7: {
          Value* mean = op(b, "reduce_mean", {a}, {{"dims", Shape{pick(2)}}, {"keep_dims", true}});
          r = op(b, "sub", {c, mean});
          r = op(b, "tanh", {r});
          break;
        }
        case 8: {
          Value* product = op(b, "matmul", {a, op(b, "transpose", {c}, {{"perm", Shape{1, 0}}})});
          // Small factors everywhere: rounding errors must not grow around loops.
          r = op(b, "mul", {op(b, "matmul", {op(b, "tanh", {product}), a}), b.scalar(DType::kF32, 0.125)});
          break;
        }
        case 9: {
          Value* top =
              op(b, "slice", {a}, {{"starts", Shape{0, 0}}, {"sizes", Shape{2, 6}}, {"steps", Shape{2, 1}}});
          Value* low =
              op(b, "slice", {c}, {{"starts", Shape{2, 0}}, {"sizes", Shape{2, 6}}, {"steps", Shape{1, 1}}});
          std::vector<Value*> parts{top, low};
          r = ops::build_op(b, "concat", parts, {{"dim", int64_t{0}}})->result();
          break;
        }
        case 10:
          r = op(b, "where", {op(b, "greater", {a, c}), c, a});
          break;
        case 11:
          r = op(
              b, "relu",
              {op(b, "reshape", {op(b, "reshape", {a}, {{"shape", Shape{24}}})}, {{"shape", Shape{4, 6}}})});
          break;
        case 12:
          if (index != nullptr) {
            Value* number = op(b, "cast", {index}, {{"dtype", DType::kF32}});
            r = op(b, "sin", {op(b, "add", {a, number})});
          } else {
            r = op(b, "expand", {b.scalar(DType::kF32, 0.25)}, {{"shape", Shape{4, 6}}});
          }
          break;
        case 13:
        case 14:
          make_loop(b, pool, depth, only_ipu);
          continue;
        default:
          make_if(b, pool, depth, index, only_ipu);
          continue;
      }
      pool.push_back(r);
    }
  }

  // Calls a graph that is called elsewhere already, or a new one.
  void make_call(ir::Builder& b, std::vector<Value*>& pool, int depth, int only_ipu) {
    std::vector<ir::Graph*>& known = callees_[{depth, only_ipu}];
    ir::Graph* callee = nullptr;
    if (!known.empty() && pick(3) != 0) {
      callee = known[static_cast<size_t>(pick(static_cast<int>(known.size())))];
    } else {
      callee = module_->add_graph("callee");
      std::vector<Value*> inner;
      for (int i = 1 + pick(3); i > 0; --i) inner.push_back(callee->add_input(kType, "p"));
      ir::Builder inside(callee);
      fill(inside, inner, 1 + pick(6), depth - 1, nullptr, only_ipu);
      for (int i = 1 + pick(3); i > 0; --i) callee->append_output(any(inner));  // inputs, and some twice
      if (pick(4) != 0) callee->attributes.set(ir::kSubroutine, true);
      callees_[{depth, only_ipu}].push_back(callee);
    }
    std::vector<Value*> given;
    for (size_t i = 0; i < callee->inputs().size(); ++i) given.push_back(any(pool));
    b.settings = {};
    for (Value* v : b.call(callee, given)) pool.push_back(v);
  }

  void make_loop(ir::Builder& b, std::vector<Value*>& pool, int depth, int only_ipu) {
    const int carried = 1 + pick(3), invariant = pick(3);
    ir::Graph* body = module_->add_graph("body");
    Value* index = body->add_input({DType::kI32, {}}, "i");
    std::vector<Value*> carried_values, invariants, inner;
    for (int i = 0; i < carried; ++i) {
      carried_values.push_back(any(pool));
      inner.push_back(body->add_input(kType, "c"));
    }
    for (int i = 0; i < invariant; ++i) {
      invariants.push_back(any(pool));
      inner.push_back(body->add_input(kType, "n"));
    }
    ir::Builder inside(body);
    fill(inside, inner, 2 + pick(6), depth - 1, index, only_ipu);
    for (int i = 0; i < carried; ++i) body->append_output(any(inner));
    b.settings = {};
    for (Value* v : b.loop(body, carried_values, invariants, pick(5) == 0 ? 0 : 1 + pick(4)))
      pool.push_back(v);
  }

  void make_if(ir::Builder& b, std::vector<Value*>& pool, int depth, Value* index, int only_ipu) {
    const int arguments = 1 + pick(3), results = 1 + pick(2);
    Value* condition = nullptr;
    int branch_ipu = only_ipu;
    if (index != nullptr && pick(2) == 0) {
      Value* low = op(b, "greater_equal", {index, b.scalar(DType::kI32, pick(3))});
      Value* high = op(b, "less", {index, b.scalar(DType::kI32, 1 + pick(4))});
      condition = op(b, pick(4) == 0 ? "logical_or" : "logical_and", {low, high});
    } else {
      // A run-time condition: both branches on one IPU.
      if (branch_ipu < 0) branch_ipu = pick(ipus_);
      b.settings.ipu = branch_ipu;
      Value* sum = op(b, "reduce_mean", {any(pool)}, {{"dims", Shape{0, 1}}, {"keep_dims", false}});
      condition = op(b, "greater", {sum, b.scalar(DType::kF32, 0.0)});
    }
    std::vector<Value*> given;
    for (int i = 0; i < arguments; ++i) {
      given.push_back(any(pool));
      if (branch_ipu < 0) continue;
      b.settings.ipu = branch_ipu;  // a run-time `if` that hands an argument on has it on its own IPU
      given.back() = op(b, "neg", {given.back()});
    }
    std::vector<ir::Graph*> branches;
    for (int k = 0; k < 2; ++k) {
      ir::Graph* graph = module_->add_graph(k == 0 ? "then" : "else");
      std::vector<Value*> inner;
      for (int i = 0; i < arguments; ++i) inner.push_back(graph->add_input(kType, "a"));
      ir::Builder inside(graph);
      fill(inside, inner, pick(4), depth - 1, nullptr, branch_ipu);
      for (int i = 0; i < results; ++i) graph->append_output(any(inner));
      branches.push_back(graph);
    }
    b.settings = {};
    for (Value* v : b.branch(condition, branches[0], branches[1], given)) pool.push_back(v);
  }

  std::mt19937_64 random_;
  int ipus_;
  bool has_calls_;
  std::map<std::pair<int, int>, std::vector<ir::Graph*>>
      callees_;  // by depth below, and IPU where there is one
  std::unique_ptr<ir::Module> module_;
};

}  // namespace ipu::testing_random
