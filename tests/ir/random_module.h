// Seeded random modules for tests: every table, field, attribute kind and structural op of the text form,
// with opaque ops in between. The modules print and parse; they are not meant to be legal for the verifier or
// to run.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ir/module.h"

namespace ipu::ir {

class RandomModule {
 public:
  explicit RandomModule(uint64_t seed) : random_(seed) {}

  std::unique_ptr<Module> make() {
    auto module = std::make_unique<Module>();
    if (chance(2)) module->attributes = attributes(3);
    for (int i = below(3); i > 0; --i) module->add_remote_buffer({name(), type(), 1 + below(4)});
    for (int i = below(4); i > 0; --i) add_variable(*module);
    for (int i = below(3); i > 0; --i) add_stream(*module);
    for (int i = below(3); i > 0; --i) module->add_ring({name(), type(), 1 + below(5), below(3), below(3)});
    for (int i = 1 + below(3); i > 0; --i) add_graph(*module);
    module->entry_points[chance(2) ? "main" : name()] = module->graphs().front()->name();
    return module;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int n) { return below(n) == 0; }
  std::string name() {
    static const char* kNames[] = {"x",    "fc.weight", "layer1/conv", "odd name", "quo\"te\\", "tab\tnew\n",
                                   "\x01", "a//b",      "7",           "return",   "ümlaut",    "-"};
    return kNames[below(12)];
  }
  Type type() {
    Type type;
    type.dtype = static_cast<DType>(below(13));
    for (int rank = below(4); rank > 0; --rank) type.shape.push_back(below(5));
    if (type.shape.size() == 2 && chance(4)) type.layout = Layout::panels_of_weight(type.shape);
    if (type.shape.size() == 3 && chance(4)) type.layout = Layout::channels_last(3);
    return type;
  }
  ConstantPtr constant() {
    auto data = std::make_shared<ConstantData>();
    Type t = type();
    data->dtype = t.dtype;
    data->shape = chance(6) ? Shape{80} : t.shape;
    data->bytes.resize(static_cast<size_t>(size_in_bytes(data->dtype, data->shape)));
    bool splat = chance(4);
    size_t width = static_cast<size_t>(size_in_bytes(data->dtype));
    for (size_t i = 0; i < data->bytes.size(); ++i)
      data->bytes[i] = splat && i >= width ? data->bytes[i - width] : static_cast<std::byte>(random_());
    return data;
  }
  double real() { return chance(2) ? std::bit_cast<double>(random_()) : below(100) / 8.0 - 3.0; }
  Attribute attribute() {
    std::vector<int64_t> integers;
    std::vector<double> reals;
    std::vector<std::string> texts;
    std::vector<Symbol> symbols;
    for (int i = below(4); i > 0; --i) {
      integers.push_back(static_cast<int64_t>(random_()));
      reals.push_back(real());
      texts.push_back(name());
      symbols.push_back({name()});
    }
    switch (below(11)) {
      case 0:
        return chance(2);
      case 1:
        return static_cast<int64_t>(random_());
      case 2:
        return real();
      case 3:
        return name();
      case 4:
        return static_cast<DType>(below(13));
      case 5:
        return Symbol{name()};
      case 6:
        return constant();
      case 7:
        return integers;
      case 8:
        return reals;
      case 9:
        return texts;
      default:
        return symbols;
    }
  }
  Attributes attributes(int most) {
    Attributes list;
    for (int i = below(most + 1); i > 0; --i) list.set(name(), attribute());
    return list;
  }
  Settings settings() {
    Settings s;
    if (chance(3)) s.block = name();
    if (chance(2)) s.ipu = below(8);
    if (chance(3)) s.stage = below(4);
    if (chance(4)) s.phase = below(4);
    s.tile_set = static_cast<TileSet>(below(2));
    s.exchange = static_cast<ExchangeStrategy>(below(4));
    s.context = static_cast<Context>(below(4));
    s.recompute = static_cast<Recompute>(below(3));
    s.no_grad = chance(4);
    if (chance(3)) s.priority = below(9) - 4.5;
    if (chance(3)) s.available_memory = below(11) / 10.0;
    if (chance(3)) s.outline = attributes(2);
    return s;
  }
  void add_variable(Module& module) {
    Variable v;
    v.name = name();
    v.type = type();
    if (chance(2)) v.ipu = below(4);
    if (chance(2)) v.role = "optimizer_state";
    v.grouping = {1 + below(3), below(3),
                  chance(2) ? std::vector<int64_t>{0, 0, 1, 1} : std::vector<int64_t>{}};
    v.retrieval = chance(2) ? Retrieval::kAllReplicas : Retrieval::kOnePerGroup;
    if (chance(3)) v.meta_shape = {8, 2};
    v.shard_over = 1 + below(3);
    if (chance(3)) v.remote_buffer = name();
    v.remote_entry = below(3);
    if (chance(2)) v.initial = constant();
    v.adopted = chance(2);
    module.add_variable(v);
  }
  void add_stream(Module& module) {
    Stream s;
    s.name = name();
    s.direction = static_cast<StreamDirection>(below(2));
    s.type = type();
    s.host_dtype = static_cast<DType>(below(13));
    s.mode = static_cast<OutputMode>(below(4));
    s.period = 1 + below(3);
    s.constant = chance(2);
    if (chance(2)) s.ipu = below(4);
    module.add_stream(s);
  }
  void add_graph(Module& module) {
    Graph* graph = module.add_graph(name());
    if (chance(3)) graph->attributes = attributes(2);
    std::vector<Value*> values;
    for (int i = below(4); i > 0; --i) {
      Value* input = graph->add_input(type(), chance(2) ? name() : "");
      input->by_reference = chance(3);
      if (chance(3)) input->ipu = below(4);
      values.push_back(input);
    }
    Location shared = std::make_shared<LocationData>(LocationData{"model.py", 41, "layer3.conv2"});
    OriginPtr origin = std::make_shared<Origin>(Origin{"ai.onnx", "Gemm", 13, attributes(2)});
    std::vector<Op*> ops;
    for (int i = below(12); i > 0; --i) {
      static const char* kKinds[] = {"add",    "call",   "loop", "if",   "variable.read", "layout.convert",
                                     "my::op", "return", "loc",  "write"};
      std::vector<Value*> operands;
      for (int k = below(4); k > 0 && !values.empty(); --k)
        operands.push_back(chance(6) ? nullptr
                                     : values[static_cast<size_t>(below(static_cast<int>(values.size())))]);
      std::vector<Type> results;
      for (int k = below(3); k > 0; --k) results.push_back(type());
      Op* op = graph->create(kKinds[below(10)], operands, attributes(3), results, nullptr,
                             chance(2) ? name() : "");
      op->settings = settings();
      if (chance(2)) op->location = shared;
      if (chance(4)) op->location = std::make_shared<LocationData>(LocationData{name(), below(100), ""});
      if (chance(8))
        op->location = join(
            op->location,
            std::array<Location, 2>{shared, std::make_shared<LocationData>(LocationData{name(), 7, "m"})});
      if (chance(3)) op->origin = origin;
      if (chance(4) && !ops.empty())
        op->after.push_back(ops[static_cast<size_t>(below(static_cast<int>(ops.size())))]);
      ops.push_back(op);
      for (int k = 0; k < op->result_count(); ++k) values.push_back(op->result(k));
    }
    for (int i = below(4); i > 0 && !values.empty(); --i)
      graph->append_output(values[static_cast<size_t>(below(static_cast<int>(values.size())))]);
  }

  std::mt19937_64 random_;
};

}  // namespace ipu::ir
