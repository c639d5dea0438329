#include "target/work/work.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "target/passes/passes.h"
#include "target/transfers/collectives.h"
#include "target/work/function_cycles.h"

namespace ipu::target {
namespace {

WorkPrice of_plan(const ProductPlan& plan) {
  const ProductCycles& c = plan.cycles;
  return {.compute = c.inner_loops + c.reduction + c.cast + c.slices,
          .exchange = c.exchange_operands + c.exchange_partials,
          .overhead = c.phases + c.call,
          .temporary_bytes = plan.temporary_bytes};
}

// Cycles of which those of `phases` phases are no work.
WorkPrice of_cycles(const Machine& machine, double cycles, double phases) {
  const double overhead = std::min(phases * machine["phase_cycles"], cycles);
  return {.compute = cycles - overhead, .overhead = overhead};
}

class Pricer {
 public:
  Pricer(const Machine& machine, const Replication& replication)
      : machine_(machine), replication_(replication) {}

  WorkPrice operator()(const ProductWork& work) const {
    return of_plan(known_plan(machine_, work.shape, on_machine(machine_, work.options)));
  }
  WorkPrice operator()(const ConvolutionWork& work) const {
    const WorkPrice own = alone(work);
    if (work.beside.empty()) return own;
    // All of them take as long as the longest, each a part of that time.
    double longest = own.cycles(), sum = own.cycles();
    for (const ConvolutionWork& other : work.beside) {
      const double cycles = alone(other).cycles();
      longest = std::max(longest, cycles);
      sum += cycles;
    }
    return own * (longest / sum);
  }
  WorkPrice operator()(const PassWork& work) const {
    if (work.elements == 0) return {};
    double cycles = 0;
    for (const std::string_view function : work.functions)
      cycles += function_cycles(function, work.element_bytes, work.type);
    return of_cycles(machine_,
                     pass_cycles(machine_, work.elements, work.element_bytes, cycles, work.operands), 0.5);
  }
  WorkPrice operator()(const ReductionWork& work) const {
    if (work.elements == 0 || work.results == 0) return {};
    const double once = reduce_pass_cycles(machine_, work.elements, work.results, work.element_bytes);
    // What is summed twice is read once.
    return of_cycles(machine_, once * (1 + 0.5 * static_cast<double>(work.sums - 1)), 2);
  }
  WorkPrice operator()(const RearrangementWork& work) const {
    if (work.bytes == 0) return {};
    WorkPrice price = of_cycles(machine_, rearrange_cycles(machine_, work.bytes, work.contiguous_bytes), 1);
    price.exchange = share(work.bytes) / machine_["exchange_bytes_per_cycle"];
    price.compute -= price.exchange;
    price.temporary_bytes = share(work.bytes);
    return price;
  }
  WorkPrice operator()(const GatherWork& work) const {
    if (work.rows == 0 || work.row_bytes == 0) return {};
    WorkPrice price =
        of_cycles(machine_,
                  gather_cycles(machine_, work.rows, work.row_bytes, work.table_bytes, work.groups,
                                work.is_update ? Direction::kBackward : Direction::kForward),
                  work.is_update ? 4 : 2);
    price.exchange += static_cast<double>(work.blocks - 1) * machine_["block_update_cycles"];
    return price;
  }
  // A bitonic network over the tiles (poplibs 7eac0f2): a step compares pairs and exchanges the elements that are left. Lists as long as
  // what is kept are sorted; then of each two lists the larger elements stay, half of all, and are put in order again.
  WorkPrice operator()(const SortWork& work) const {
    if (work.rows == 0 || work.columns < 2) return {};
    const int kept = log2_up(std::min(work.kept, work.columns));
    double elements = share(work.rows * work.columns);
    WorkPrice price;
    for (int step = 0; step < kept * (kept + 1) / 2; ++step) price += sort_step(elements, work.has_values);
    for (int round = kept; round < log2_up(work.columns); ++round) {
      price += sort_step(elements, work.has_values);
      elements = std::ceil(elements / 2);
      for (int step = 0; step < kept; ++step) price += sort_step(elements, work.has_values);
    }
    return price;
  }
  // poplibs 7eac0f2: a start and cycles of a vector. Its uniform and Bernoulli numbers count elements by 32 and 16 where the others
  // count vectors; what was measured of uniform ones (random_per_cycle) says vectors.
  WorkPrice operator()(const RandomWork& work) const {
    if (work.elements == 0) return {};
    struct Row {
      double start, vector;
    };
    constexpr std::array<Row, 5> kFp32{{{136, 4}, {136, 4}, {160, 38}, {142, 1}, {150, 2}}};
    constexpr std::array<Row, 5> kFp16{{{148, 4}, {148, 4}, {172, 41}, {130, 1}, {150, 2}}};
    const bool is_half = work.element_bytes == 2;
    const Row& row = (is_half ? kFp16 : kFp32)[static_cast<size_t>(work.distribution)];
    return of_cycles(machine_,
                     row.start + row.vector * std::ceil(share(work.elements) / (is_half ? 4 : 2)) +
                         machine_["phase_cycles"] / 2,
                     0.5);
  }
  WorkPrice operator()(const CollectiveWork& work) const {
    const int64_t group = work.group == 0 ? replication_.replicas : work.group;
    if (group < 2) return {};
    const double whole =
        all_reduce_seconds(machine_, work.bytes, group, work.is_of_ipus ? 1 : replication_.ipus_of_a_replica);
    return {.overhead = machine_["global_sync_cycles"],
            .seconds = work.collective == Collective::kAllReduce ? whole : whole / 2};
  }

 private:
  WorkPrice alone(const ConvolutionWork& work) const {
    return of_plan(
        convolution_plan(machine_, work.convolution, work.pass, on_machine(machine_, work.options)));
  }

  double share(int64_t size) const { return std::ceil(static_cast<double>(size) / machine_["tiles"]); }

  static int log2_up(int64_t n) { return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(n, 1) - 1)); }

  // `elements` of the fullest tile, in pairs.
  WorkPrice sort_step(double elements, bool has_values) const {
    const double pairs = std::ceil(elements / 2 / machine_["workers"]);
    const double worker = has_values ? 23 + 4 + 11 * pairs : 40 + 17 + 13 * pairs;
    const double bytes = elements * (has_values ? 8 : 4);
    return {.compute = 19 + machine_["workers"] * worker,
            .exchange = bytes / machine_["exchange_bytes_per_cycle"],
            .overhead = machine_["phase_cycles"],
            .temporary_bytes = bytes};
  }

  const Machine& machine_;
  const Replication& replication_;
};

}  // namespace

std::string_view word(const WorkForm& form) {
  constexpr std::array<std::string_view, std::variant_size_v<WorkForm>> kWords{
      "product", "convolution", "pass",   "reduction", "rearrangement",
      "gather",  "sort",        "random", "collective"};
  return kWords[form.index()];
}

double macs(const WorkForm& form) {
  if (const auto* product = std::get_if<ProductWork>(&form)) return product->shape.macs();
  const auto* c = std::get_if<ConvolutionWork>(&form);
  return c == nullptr ? 0 : forward_shape(c->convolution).macs();
}

WorkPrice& WorkPrice::operator+=(const WorkPrice& next) {
  compute += next.compute;
  exchange += next.exchange;
  overhead += next.overhead;
  seconds += next.seconds;
  temporary_bytes = std::max(temporary_bytes, next.temporary_bytes);
  return *this;
}

WorkPrice WorkPrice::operator*(double times) const {
  return {compute * times, exchange * times, overhead * times, seconds * times, temporary_bytes};
}

WorkPrice price(const Machine& machine, const Work& work, const Replication& replication) {
  return std::visit(Pricer(machine, replication), work.form) * static_cast<double>(work.times);
}

}  // namespace ipu::target
