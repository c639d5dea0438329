#include "report/memory_map.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "ir/regions.h"
#include "ops/definition/effects.h"
#include "ops/definition/work.h"
#include "report/live_values.h"
#include "report/program_code.h"
#include "report/tile_memory.h"
#include "target/memory/tile_sums.h"

namespace ipu::report {
namespace {

using ir::Value;

constexpr size_t kMostPieces = 8;  // that are named

constexpr std::array<const char*, kMemoryClasses> kWords{
    "weights",     "accumulators", "optimizer state", "stashes",       "constants",    "values", "copies",
    "temporaries", "vertex state", "vertex code",     "exchange code", "control code", "stacks", "padding"};

// An op while it runs, in bytes of the fullest tile.
struct Need {
  double temporaries = 0, copies = 0;
};

MemoryClass class_of(const ir::Variable& variable) {
  if (variable.role == "accumulator") return MemoryClass::kAccumulators;
  if (variable.role == "optimizer_state") return MemoryClass::kOptimizerState;
  if (variable.role == "constant") return MemoryClass::kConstants;
  return MemoryClass::kWeights;
}

// nullptr: of no product.
target::ProductOptions* options_of(target::WorkForm& form) {
  if (auto* product = std::get_if<target::ProductWork>(&form)) return &product->options;
  auto* convolution = std::get_if<target::ConvolutionWork>(&form);
  return convolution == nullptr ? nullptr : &convolution->options;
}

class Map {
 public:
  Map(const ir::Module& module, const target::Machine& machine, const MemoryOptions& options)
      : module_(module), machine_(machine), options_(options), tiles_(machine["tiles"]) {}

  std::vector<TileMemory> run() {
    ipus_ = ipus_of(module_);
    for (const int ipu : ipus_)
      of_ipus_.emplace(ipu, OfIpu(machine_, {machine_["repeat_exchange_factor"], options_.is_outlined}));
    find_callers();
    for (const auto& graph : module_.graphs())
      for (const auto& op : graph->ops()) visit(*op);
    add_tables();
    const std::vector<Moment> moments = moments_of_peak(module_, ipus_, [&](const ir::Op& op) {
      const auto at = needs_.find(&op);
      return at == needs_.end() ? 0
                                : static_cast<int64_t>(tiles_ * (at->second.temporaries + at->second.copies));
    });
    std::vector<TileMemory> memory;
    for (size_t i = 0; i < ipus_.size(); ++i) memory.push_back(finish(ipus_[i], moments[i]));
    return memory;
  }

 private:
  struct OfIpu {
    OfIpu(const target::Machine& machine, ProgramCode program) : sums(machine), code(std::move(program)) {}
    target::TileSums sums;  // of what has a mapping that is known
    ProgramCode code;
    double unmapped = 0;  // bytes of a tile on average
    TileMemory memory;
    std::vector<MemoryPiece> pieces;
  };

  // What a graph's input is given where it is run first.
  void find_callers() {
    for (const auto& graph : module_.graphs())
      for (const auto& op : graph->ops()) {
        if (!ir::is_region(*op)) continue;
        const ir::Region region(*op);
        for (const ir::Graph* body : region.bodies())
          for (int k = 0; k < op->operand_count(); ++k)
            if (const int input = region.input(k); input >= 0 && op->operand(k) != nullptr)
              given_.try_emplace(body->inputs()[static_cast<size_t>(input)], op->operand(k));
      }
  }

  // Where the elements of a value were made, and whether they are read in another order.
  const Value* source_of(const Value* value, bool* is_transposed) const {
    for (;;) {
      const ir::Op* op = value->producer();
      if (op == nullptr) {
        const auto at = given_.find(value);
        if (at == given_.end()) return value;
        value = at->second;
        continue;
      }
      const ir::ViewRule* view = ops::view_rule(*op);
      if (view == nullptr || view->all_operands || op->operand(0) == nullptr) return value;
      *is_transposed |= op->is("transpose");
      value = op->operand(0);
    }
  }

  void visit(const ir::Op& op) {
    ops::OpWork work = ops::work_of(op);
    for (target::Work& phase : work.phases)
      if (target::ProductOptions* options = options_of(phase.form); options != nullptr) {
        *options = target::on_machine(machine_, *options);
        options->memory_proportion = std::min(options->memory_proportion, options_.most_proportion);
      }
    const int ipu = op.result_count() > 0 ? ipu_of(*op.result()) : op.settings.ipu.value_or(ipus_.front());
    OfIpu& of = of_ipus_.at(ipu);
    of.code.add(op, work);
    Need need;
    for (target::Work& phase : work.phases) {
      need.temporaries = std::max(need.temporaries, target::price(machine_, phase, {}).temporary_bytes);
      if (options_of(phase.form) != nullptr) lay_out(op, phase.form, &need);
    }
    if (need.temporaries > of.memory.most_received) {
      of.memory.most_received = need.temporaries;
      of.memory.most_received_by = op.kind() + " " + ir::user_line(op.location);
    }
    if (need.temporaries + need.copies > 0) needs_[&op] = need;
  }

  // Weights lie as the first product that reads them wants them. Other products work on copies of them; and of streams of the host,
  // which are mapped linearly, of values whose order was changed, and in gradients of what the forward pass made for its own products.
  void lay_out(const ir::Op& op, const target::WorkForm& form, Need* need) {
    double copies = 0;
    for (int i = 0; i < op.operand_count(); ++i) {
      if (op.operand(i) == nullptr) continue;
      bool is_copied = false;
      const Value* source = source_of(op.operand(i), &is_copied);
      const ir::Op* maker = source->producer();
      if (maker == nullptr || maker->is(ir::kind::kConstant)) continue;
      if (maker->is(ir::kind::kVariableRead))
        is_copied = !is_planned(maker->attributes.symbol("variable").name, form);
      else
        is_copied |= maker->is(ir::kind::kHostLoad) || op.settings.context != maker->settings.context;
      if (is_copied) copies += static_cast<double>(op.operand(i)->type().bytes()) / tiles_;
    }
    need->copies = std::max(need->copies, copies);
  }

  // Whether a variable lies as this product wants it.
  bool is_planned(const std::string& name, const target::WorkForm& form) {
    const auto [at, is_new] = planned_.try_emplace(name);
    const target::ProductPlan* plan = nullptr;
    if (const auto* product = std::get_if<target::ProductWork>(&form); product != nullptr)
      plan = &target::known_plan(machine_, product->shape, product->options);
    else if (const auto& work = std::get<target::ConvolutionWork>(form);
             work.pass == target::ConvolutionPass::kForward)
      plan = &target::known_plan(machine_, target::forward_shape(work.convolution), work.options);
    if (is_new) at->second = plan;
    return at->second == plan;
  }

  void add(int ipu, MemoryPiece piece) {
    OfIpu& of = of_ipus_.at(ipu);
    of.memory.of(piece.cause) += piece.bytes / tiles_;
    of.pieces.push_back(std::move(piece));
  }

  void add_tables() {
    for (const ir::Variable& variable : module_.variables()) {
      if (!variable.remote_buffer.empty()) continue;
      const auto bytes = static_cast<double>(variable.type.bytes());
      add(ipu_of(variable), {variable.name, ir::to_string(variable.type), "", class_of(variable), bytes});
      target::TileSums& sums = of_ipus_.at(ipu_of(variable)).sums;
      const auto planned = planned_.find(variable.name);
      if (planned != planned_.end() && planned->second != nullptr)
        sums.add_planned(bytes, planned->second->split.tiles());
      else
        sums.add_linear(bytes);
    }
    for (const ir::Ring& ring : module_.rings()) {
      const auto bytes = static_cast<double>(bytes_of(ring));
      add(ipu_of(ring), {ring.name, ir::to_string(ring.type), "", MemoryClass::kStashes, bytes});
      add_unmapped(ipu_of(ring), bytes);
    }
    for (const auto& graph : module_.graphs())
      for (const auto& op : graph->ops()) {
        if (!op->is(ir::kind::kConstant)) continue;
        const Value& value = *op->result();
        const auto bytes = static_cast<double>(value.type().bytes());
        add(ipu_of(value), {value.name(), ir::to_string(value.type()), ir::user_line(op->location),
                            MemoryClass::kConstants, bytes});
        of_ipus_.at(ipu_of(value)).sums.add_linear(bytes);
      }
  }

  // On few tiles if it is small; else nothing is known but the mean.
  void add_unmapped(int ipu, double bytes) {
    OfIpu& of = of_ipus_.at(ipu);
    if (bytes < tiles_ * machine_["least_tile_bytes"])
      of.sums.add_linear(bytes);
    else
      of.unmapped += bytes / tiles_;
  }

  TileMemory finish(int ipu, const Moment& moment) {
    OfIpu& of = of_ipus_.at(ipu);
    TileMemory& memory = of.memory;
    memory.ipu = ipu;
    const bool is_gradient = moment.op != nullptr && moment.op->settings.context == ir::Context::kBackward;
    memory.kept_for_gradients = memory.of(MemoryClass::kStashes);
    for (const Moment::Live& live : moment.values) {
      const ir::Op* maker = live.value->producer();
      const auto bytes = static_cast<double>(live.bytes);
      if (is_gradient && maker != nullptr && maker->settings.context == ir::Context::kForward &&
          maker->settings.recompute != ir::Recompute::kRecompute)
        memory.kept_for_gradients += bytes / tiles_;
      add(ipu, {live.value->name(), ir::to_string(live.value->type()),
                maker == nullptr ? "" : ir::user_line(maker->location), MemoryClass::kValues, bytes});
      if (maker != nullptr && maker->is(ir::kind::kHostLoad))
        of.sums.add_linear(bytes);
      else
        add_unmapped(ipu, bytes);
    }
    const double mean = std::accumulate(memory.bytes.begin(), memory.bytes.end(), 0.0);
    if (moment.op != nullptr) {
      memory.peak_op = moment.op->kind();
      memory.peak_line = ir::user_line(moment.op->location);
      if (const auto at = needs_.find(moment.op); at != needs_.end()) {
        memory.of(MemoryClass::kTemporaries) = at->second.temporaries;
        memory.of(MemoryClass::kCopies) = at->second.copies;
      }
    }
    memory.of(MemoryClass::kPadding) =
        std::max(0.0, of.sums.most() + machine_["uneven_factor"] * of.unmapped - mean);
    const target::CodeBytes& code = of.code.bytes();
    memory.of(MemoryClass::kVertexState) = code.vertex_state;
    memory.of(MemoryClass::kVertexCode) = code.vertex_code;
    memory.of(MemoryClass::kExchangeCode) = code.exchange;
    memory.of(MemoryClass::kControlCode) = code.control;
    memory.of(MemoryClass::kStacks) = machine_["workers"] * machine_["worker_stack_bytes"] +
                                      machine_["supervisor_stack_bytes"] + machine_["reserved_bytes"];
    std::stable_sort(of.pieces.begin(), of.pieces.end(),
                     [](const MemoryPiece& a, const MemoryPiece& b) { return a.bytes > b.bytes; });
    of.pieces.resize(std::min(of.pieces.size(), kMostPieces));
    memory.largest = std::move(of.pieces);
    return std::move(memory);
  }

  const ir::Module& module_;
  const target::Machine& machine_;
  const MemoryOptions& options_;
  const double tiles_;
  std::vector<int> ipus_;
  std::map<int, OfIpu> of_ipus_;
  std::unordered_map<const Value*, const Value*> given_;
  std::unordered_map<const ir::Op*, Need> needs_;
  std::unordered_map<std::string, const target::ProductPlan*> planned_;  // variables that products read
};

}  // namespace

const char* word(MemoryClass cause) { return kWords[static_cast<size_t>(cause)]; }

double TileMemory::total() const { return std::accumulate(bytes.begin(), bytes.end(), 0.0); }
double TileMemory::code() const {
  return of(MemoryClass::kVertexCode) + of(MemoryClass::kExchangeCode) + of(MemoryClass::kControlCode);
}

std::vector<TileMemory> memory_map(const ir::Module& module, const target::Machine& machine,
                                   const MemoryOptions& options) {
  return Map(module, machine, options).run();
}

}  // namespace ipu::report
