#include "report/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>

#include "ir/structure.h"
#include "ops/definition/work.h"
#include "report/computing_tiles.h"
#include "report/expected_error.h"

namespace ipu::report {
namespace {

template <class Entry, class Key>
void sort_by(std::vector<Entry>& entries, Key key) {
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const Entry& a, const Entry& b) { return key(a) > key(b); });
}

std::string module_of(const ir::Op& op) { return op.location ? op.location->module_path : ""; }

std::string type_of(const ir::Op& op) {
  if (op.result_count() > 0) return ir::to_string(op.result()->type());
  return op.operand_count() > 0 && op.operand(0) != nullptr ? ir::to_string(op.operand(0)->type()) : "";
}

std::vector<OperationReport> operations_of(const ProgramTime& time) {
  std::map<std::tuple<std::string, std::string, std::string, std::string, int, std::optional<int>>,
           OperationReport>
      alike;
  for (const TimedOp& timed : time.ops) {
    const ir::Op& op = *timed.op;
    OperationReport& entry =
        alike[{op.kind(), type_of(op), ir::user_line(op.location), module_of(op), timed.ipu, timed.sender}];
    entry.is_guess |= timed.once.is_guess;
    ++entry.count;
    entry.executions += timed.executions;
    entry.cycles += timed.cycles();
  }
  std::vector<OperationReport> operations;
  for (auto& [key, entry] : alike) {
    std::tie(entry.kind, entry.type, entry.line, entry.module, entry.ipu, entry.sender) = key;
    operations.push_back(std::move(entry));
  }
  sort_by(operations, [](const OperationReport& o) { return o.cycles.total(); });
  return operations;
}

// What is the same for a whole run is moved once.
std::vector<StreamReport> streams_of(const ir::Module& module, const ProgramTime& time) {
  std::map<std::string, double> elements;
  for (const TimedOp& timed : time.ops)
    if (timed.op->is(ir::kind::kHostLoad) || timed.op->is(ir::kind::kHostStore))
      elements[timed.op->attributes.symbol("stream").name] += timed.executions;
  std::vector<StreamReport> streams;
  for (const ir::Stream& stream : module.streams())
    streams.push_back({stream.name, ir::to_string(stream.type),
                       stream.direction == ir::StreamDirection::kHostToDevice, stream.ipu.value_or(0),
                       stream.constant ? 1 : elements[stream.name], stream.type.bytes()});
  return streams;
}

std::vector<IpuMemoryReport> memory_of(const Verdict& verdict) {
  std::vector<IpuMemoryReport> memory;
  for (const TileMemory& of : verdict.ipus) {
    IpuMemoryReport& ipu = memory.emplace_back();
    ipu.ipu = of.ipu;
    for (size_t i = 0; i < kMemoryClasses; ++i) ipu.bytes += ipu.classes[i] = std::llround(of.bytes[i]);
  }
  return memory;
}

std::vector<ProductReport> products_of(const ProgramTime& time, const target::Machine& machine, size_t most) {
  std::vector<ProductReport> products;
  std::unordered_map<const target::ProductPlan*, size_t> numbers;  // equal products have one plan
  for (const TimedOp& timed : time.ops) {
    if (timed.once.macs == 0) continue;
    for (const target::Work& work : ops::work_of(*timed.op).phases) {
      ProductReport product;
      if (const auto* plain = std::get_if<target::ProductWork>(&work.form)) {
        product.shape = plain->shape;
        product.options = target::on_machine(machine, plain->options);
      } else if (const auto* convolution = std::get_if<target::ConvolutionWork>(&work.form)) {
        product.options = target::on_machine(machine, convolution->options);
        product.shape =
            target::pass_shape(machine, convolution->convolution, convolution->pass, product.options);
      } else {
        continue;
      }
      const target::ProductPlan& plan = target::known_plan(machine, product.shape, product.options);
      const auto [known, is_new] = numbers.try_emplace(&plan, products.size());
      if (is_new) {
        product.kind = timed.op->kind();
        product.figure = target::word(work.form);
        product.line = ir::user_line(timed.op->location);
        product.cycles = std::round(plan.cycles.total());
        products.push_back(std::move(product));
      }
      products[known->second].executions += timed.executions * static_cast<double>(work.times);
    }
  }
  sort_by(products, [](const ProductReport& p) { return p.cycles * p.executions; });
  products.resize(std::min(products.size(), most));
  for (ProductReport& product : products)
    product.choice = target::choose_plan(machine, product.shape, product.options);
  return products;
}

}  // namespace

const IpuMemoryReport& Report::fullest() const {
  return *std::max_element(memory.begin(), memory.end(),
                           [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
}

double Report::micro_batches() const {
  double most = 0;
  for (const StreamReport& stream : streams)
    if (stream.is_input) most = std::max(most, stream.elements);
  return most;
}

Report make_report(const ir::Module& module, const target::Machine& machine, const Request& request) {
  Report report;
  report.machine = &machine;
  report.request = request;
  report.strategy = ir::strategy_of(module);
  report.program = describe(module);
  report.figure = figure_of_run(module);
  report.time = program_time(module, request.entry, machine, request.replicas);
  report.verdict = judge(module, machine,
                         {request.replicas_of_machine > 0 ? request.replicas_of_machine : request.replicas,
                          {.is_outlined = request.is_outlined}});
  report.memory = memory_of(report.verdict);
  report.streams = streams_of(module, report.time);
  report.operations = operations_of(report.time);
  report.products = products_of(report.time, computing_tiles(module, machine), request.most_products);
  return report;
}

}  // namespace ipu::report
