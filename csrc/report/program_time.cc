#include "report/program_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "ir/regions.h"
#include "ir/structure.h"
#include "report/computing_tiles.h"
#include "report/known_scalars.h"
#include "report/live_values.h"
#include "report/tile_memory.h"
#include "support/error.h"

namespace ipu::report {
namespace {

using ir::Graph;
using ir::Op;

// Of so many iterations the conditions are not looked at one by one.
constexpr int64_t kMostTrips = int64_t{1} << 20;

class Schedule {
 public:
  enum class Loops : uint8_t { kAsExpected, kToTheirBounds };  // that a value ends

  Schedule(const ir::Module& module, const target::Machine& machine, int64_t replicas, Loops loops)
      : machine_(machine), ipus_(ipus_of(module)), loops_(loops) {
    replication_ = {replicas, static_cast<int64_t>(ipus_.size())};
  }

  bool expects_less() const { return expects_less_; }

  ProgramTime run(const Graph& entry) {
    called(entry);
    time_.cycles = time_.maximum_cycles = time_.schedule.back().end();
    time_.seconds = time_.cycles / machine_["clock_hz"];
    count_executions();
    add_up();
    return std::move(time_);
  }

 private:
  size_t place_of(int ipu) const {
    const auto found = std::lower_bound(ipus_.begin(), ipus_.end(), ipu);
    IPU_CHECK(found != ipus_.end() && *found == ipu, "an IPU that the program does not use");
    return static_cast<size_t>(found - ipus_.begin());
  }
  size_t place_of(const Op& op) const {
    return place_of(op.settings.ipu                                      ? *op.settings.ipu
                    : op.result_count() > 0                              ? ipu_of(*op.result())
                    : op.operand_count() > 0 && op.operand(0) != nullptr ? ipu_of(*op.operand(0))
                                                                         : ipus_[0]);
  }

  // The ops of a graph one after the other, by place of the IPU.
  struct Clocks {
    ScheduledGraph graph;
    std::vector<double> collected;  // bytes of the collectives that come together
    std::vector<double> transfers;  // when the I/O tiles are done that work beside the others

    void meet(size_t place) {
      graph.ends[place] = transfers[place] = std::max(graph.ends[place], transfers[place]);
    }
  };

  size_t add(const Graph& graph, const KnownScalars& known, const Conditions& conditions) {
    const std::vector<double> zeros(ipus_.size(), 0);
    Clocks clocks{{&graph, zeros, std::vector<char>(ipus_.size(), 0), {}}, zeros, zeros};
    size_t branches = 0;
    for (const auto& op : graph.ops()) {
      if (op->is(ir::kind::kIf))
        run_branch(*op, conditions[branches++], &clocks.graph);
      else if (ir::is_region(*op))
        run_body(*op, &clocks.graph);
      else if (op->is(ir::kind::kIoBarrier))
        clocks.meet(place_of(*op));
      else if (op->result_count() != 1 || !known.contain(*op->result()))
        compute(*op, &clocks);
    }
    for (size_t i = 0; i < ipus_.size(); ++i) clocks.meet(i);
    time_.schedule.push_back(std::move(clocks.graph));
    return time_.schedule.size() - 1;
  }

  // A graph that nothing hangs on is the same wherever it is called.
  size_t called(const Graph& graph) {
    const auto found = called_.find(&graph);
    return found != called_.end() ? found->second : called(graph, KnownScalars(graph));
  }
  size_t called(const Graph& graph, const KnownScalars& known) {
    const auto found = called_.find(&graph);
    if (found != called_.end()) return found->second;
    const size_t number = add(graph, known, known.conditions());
    return called_[&graph] = number;
  }

  void compute(const Op& op, Clocks* clocks) {
    const size_t place = place_of(op);
    double& collected = clocks->collected[place];
    // A body that runs under several conditions has the same ops outside its branches.
    const auto [known, is_new] = timed_.try_emplace(&op, time_.ops.size());
    if (is_new) {
      TimedOp timed{&op, ipus_[place]};
      timed.is_beside = ir::is_overlapped(op);
      if (op.is(ir::kind::kIpuCopy)) timed.sender = static_cast<int>(op.attributes.integer("from"));
      timed.once = time_of(op, machine_, replication_, collected);
      time_.ops.push_back(timed);
    }
    const TimedOp& timed = time_.ops[known->second];
    const double cycles = timed.once.cycles.total();
    if (cycles == 0) return;
    collected = timed.once.collective_bytes > 0 ? collected + timed.once.collective_bytes : 0;
    ScheduledGraph& in = clocks->graph;
    in.takes_part[place] = 1;
    double& clock = in.ends[place];
    if (timed.is_beside) {
      clocks->transfers[place] += cycles;
    } else if (timed.sender) {
      const size_t sender = place_of(*timed.sender);
      clock = std::max(clock, in.ends[sender]) + cycles;
      in.ends[sender] = clock;
      in.takes_part[sender] = 1;
    } else {
      clock += cycles;
    }
  }

  void run_branch(const Op& op, std::optional<bool> condition, ScheduledGraph* in) {
    const std::vector<Graph*> bodies = ir::Region(op).bodies();
    const size_t yes = called(*bodies[0]), no = called(*bodies[1]);
    time_.is_maximum |= !condition;
    const bool takes = condition.value_or(time_.schedule[yes].end() >= time_.schedule[no].end());
    append(takes ? yes : no, 1, in);
  }

  void run_body(const Op& op, ScheduledGraph* in) {
    const ir::Region region(op);
    if (!region.repeats()) return append(called(*region.bodies()[0]), 1, in);
    const Graph& body = region.body();
    const int64_t trips = trips_of(op);
    const KnownScalars known(body, true);
    if (!known.hang_on_index()) return append(called(body, known), static_cast<double>(trips), in);
    if (trips > kMostTrips)
      return append(add(body, known, Conditions(known.conditions().size())), static_cast<double>(trips), in);
    // Iterations with equal conditions are one.
    std::map<Conditions, size_t> variants;
    size_t last = 0;
    int64_t alike = 0;
    for (int64_t index = 0; index < trips; ++index) {
      const Conditions conditions = known.conditions(index);
      auto found = variants.find(conditions);
      if (found == variants.end()) found = variants.emplace(conditions, add(body, known, conditions)).first;
      if (alike > 0 && found->second != last) {
        append(last, static_cast<double>(alike), in);
        alike = 0;
      }
      last = found->second;
      ++alike;
    }
    if (alike > 0) append(last, static_cast<double>(alike), in);
  }

  int64_t trips_of(const Op& op) {
    const int64_t bound = op.attributes.integer("trip");
    if (!op.attributes.boolean("while", false)) return bound;
    time_.is_maximum = true;
    const int64_t expected = op.attributes.integer("expected", bound);
    if (loops_ == Loops::kToTheirBounds) return bound;
    expects_less_ |= expected < bound;
    return expected;
  }

  // IPUs that take part begin together; an iteration ends when all of them are done.
  void append(size_t part, double times, ScheduledGraph* in) const {
    const ScheduledGraph& inner = time_.schedule[part];
    double begin = 0;
    for (size_t i = 0; i < ipus_.size(); ++i)
      if (inner.takes_part[i]) begin = std::max(begin, in->ends[i]);
    for (size_t i = 0; i < ipus_.size(); ++i) {
      if (!inner.takes_part[i]) continue;
      in->takes_part[i] = 1;
      in->ends[i] = begin + (times == 1 ? inner.ends[i] : times * inner.end());
    }
    if (times > 0) in->parts.push_back({part, begin, times});
  }

  void count_executions() {
    std::vector<double> executions(time_.schedule.size(), 0);
    executions.back() = 1;
    for (size_t g = time_.schedule.size(); g-- > 0;) {  // a graph comes after its parts
      if (executions[g] == 0) continue;
      for (const auto& [part, begin, times] : time_.schedule[g].parts)
        executions[part] += executions[g] * times;
      for (const auto& op : time_.schedule[g].graph->ops())
        if (const auto found = timed_.find(op.get()); found != timed_.end())
          time_.ops[found->second].executions += executions[g];
    }
    std::erase_if(time_.ops,
                  [](const TimedOp& op) { return op.executions == 0 || op.once.cycles.total() == 0; });
  }

  void add_up() {
    std::map<std::string, Sum> kinds, lines, modules, guesses;
    for (const int ipu : ipus_) time_.ipus.push_back({ipu, {}, 0, {}});
    for (const TimedOp& timed : time_.ops) {
      const Cycles once = timed.once.cycles * timed.executions;
      IpuTime& ipu = time_.ipus[place_of(timed.ipu)];
      (timed.is_beside ? ipu.beside : ipu.cycles) += once;
      if (timed.sender) time_.ipus[place_of(*timed.sender)].cycles += once;
      const auto add = [&](std::map<std::string, Sum>& to, const std::string& what) {
        auto& [of, figures] = to[what];
        of.executions += timed.executions;
        of.cycles += timed.cycles();
        figures[timed.once.figure] += timed.cycles().total();
      };
      const ir::Location& location = timed.op->location;
      add(kinds, timed.op->kind());
      add(lines, ir::user_line(location));
      add(modules, location ? location->module_path : "");
      if (timed.once.is_guess) add(guesses, timed.op->kind());
      time_.operations += 2 * timed.once.macs * timed.executions;
    }
    for (IpuTime& ipu : time_.ipus) ipu.waiting = time_.cycles - ipu.cycles.total();
    time_.kinds = sorted(std::move(kinds));
    time_.lines = sorted(std::move(lines));
    time_.modules = sorted(std::move(modules));
    time_.guesses = sorted(std::move(guesses));
  }

  struct Sum {
    TimeOf of;
    std::map<std::string_view, double> figures;  // cycles of each
  };
  static std::vector<TimeOf> sorted(std::map<std::string, Sum> by_name) {
    std::vector<TimeOf> list;
    for (auto& [what, sum] : by_name) {
      sum.of.what = what;
      const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
      sum.of.figure = std::max_element(sum.figures.begin(), sum.figures.end(), less)->first;
      list.push_back(std::move(sum.of));
    }
    std::stable_sort(list.begin(), list.end(),
                     [](const TimeOf& a, const TimeOf& b) { return a.cycles.total() > b.cycles.total(); });
    return list;
  }

  const target::Machine& machine_;
  const std::vector<int> ipus_;
  target::Replication replication_;
  const Loops loops_;
  bool expects_less_ = false;  // than the bound, of a loop
  ProgramTime time_;
  std::unordered_map<const Graph*, size_t> called_;  // numbers in the schedule
  std::unordered_map<const Op*, size_t> timed_;      // numbers in time_.ops, until executions are counted
};

}  // namespace

double ScheduledGraph::end() const { return *std::max_element(ends.begin(), ends.end()); }

ProgramTime program_time(const ir::Module& module, const std::string& entry, const target::Machine& whole,
                         int64_t replicas) {
  const target::Machine& machine = computing_tiles(module, whole);
  const auto found = module.entry_points.find(entry);
  if (found == module.entry_points.end())
    throw Error(ErrorCode::kInvalidProgram, fmt::format("the program has no entry point '{}'", entry));
  const Graph& graph = *module.find_graph(found->second);
  Schedule schedule(module, machine, replicas, Schedule::Loops::kAsExpected);
  ProgramTime time = schedule.run(graph);
  if (!schedule.expects_less()) return time;
  time.is_maximum = false;
  time.maximum_cycles =
      Schedule(module, machine, replicas, Schedule::Loops::kToTheirBounds).run(graph).cycles;
  return time;
}

}  // namespace ipu::report
