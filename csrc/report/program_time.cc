#include "report/program_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "ir/regions.h"
#include "ops/definition/work.h"
#include "report/known_scalars.h"
#include "report/live_values.h"
#include "report/tile_memory.h"
#include "support/error.h"

namespace ipu::report {
namespace {

using ir::Graph;
using ir::Op;

// A graph as it runs under certain conditions: what each IPU takes, and the graphs that run inside.
struct Piece {
  const Graph* graph;
  std::vector<double> clocks;  // by place of the IPU: when it is done, from the begin of the graph
  std::vector<char> used;      // by place of the IPU
  std::vector<std::pair<size_t, double>> parts;  // pieces, how often
  double end() const { return *std::max_element(clocks.begin(), clocks.end()); }
};

// The ops of a graph one after the other, by place of the IPU.
struct Walk {
  Piece* piece;
  std::vector<double> collected;  // bytes of the collectives that come together
  std::vector<double> transfers;  // when the I/O tiles are done that work beside the others

  void meet(size_t place) {
    double& clock = piece->clocks[place];
    clock = transfers[place] = std::max(clock, transfers[place]);
  }
};

class Schedule {
 public:
  Schedule(const ir::Module& module, const target::Machine& machine, int64_t replicas) : machine_(machine) {
    ipus_ = ipus_of(module);
    replication_ = {replicas, static_cast<int64_t>(ipus_.size())};
  }

  ProgramTime run(const Graph& entry) {
    const size_t whole = piece_of(entry, KnownScalars(entry));
    ProgramTime time;
    time.cycles = pieces_[whole].end();
    time.seconds = time.cycles / machine_["clock_hz"];
    time.is_maximum = is_maximum_;
    add_up(whole, &time);
    return time;
  }

 private:
  size_t place_of(const Op& op) const {
    return place_of(op.settings.ipu ? *op.settings.ipu : op.result_count() > 0 ? ipu_of(*op.result()) : 0);
  }

  size_t place_of_sender(const Op& copy) const {
    return place_of(static_cast<int>(copy.attributes.integer("from")));
  }
  size_t place_of(int ipu) const {
    return static_cast<size_t>(std::lower_bound(ipus_.begin(), ipus_.end(), ipu) - ipus_.begin());
  }

  size_t piece_of(const Graph& graph, const KnownScalars& known) {
    Piece piece{&graph, std::vector<double>(ipus_.size(), 0), std::vector<char>(ipus_.size(), 0), {}};
    Walk walk{&piece, std::vector<double>(ipus_.size(), 0), std::vector<double>(ipus_.size(), 0)};
    for (const auto& op : graph.ops()) {
      if (ir::is_region(*op))
        run_bodies(*op, known, &piece);
      else if (op->is(ir::kind::kIoBarrier))
        walk.meet(place_of(*op));
      else if (op->result_count() != 1 || !known.find(op->result()))
        compute(*op, &walk);
    }
    for (size_t i = 0; i < ipus_.size(); ++i) walk.meet(i);
    pieces_.push_back(std::move(piece));
    return pieces_.size() - 1;
  }

  // A graph without an index that anything hangs on is the same wherever it is called.
  size_t called(const Graph& graph) {
    const auto found = called_.find(&graph);
    if (found != called_.end()) return found->second;
    return called_[&graph] = piece_of(graph, KnownScalars(graph));
  }

  void compute(const Op& op, Walk* walk) {
    const size_t place = place_of(op);
    Piece* piece = walk->piece;
    double& collected = walk->collected[place];
    const OpTime time = time_of(op, machine_, replication_, collected);
    if (time.cycles.total() == 0) return;
    collected = time.collective_bytes > 0 ? collected + time.collective_bytes : 0;
    times_[&op] = time;
    piece->used[place] = 1;
    double& clock = piece->clocks[place];
    if (ir::is_overlapped(op)) {
      walk->transfers[place] += time.cycles.total();
    } else if (op.is(ir::kind::kIpuCopy)) {
      const size_t sender = place_of_sender(op);
      clock = std::max(clock, piece->clocks[sender]) + time.cycles.total();
      piece->clocks[sender] = clock;
      piece->used[sender] = 1;
    } else {
      clock += time.cycles.total();
    }
  }

  void run_bodies(const Op& op, const KnownScalars& known, Piece* piece) {
    const ir::Region region(op);
    if (region.repeats()) return run_loop(op, region, piece);
    std::vector<Graph*> bodies = region.bodies();
    size_t part = called(*bodies[0]);
    if (op.is(ir::kind::kIf)) {
      const std::optional<double> condition = known.find(op.operand(0));
      const size_t other = called(*bodies[1]);
      if (!condition) is_maximum_ = true;
      if (condition ? *condition == 0 : pieces_[other].end() > pieces_[part].end()) part = other;
    }
    append(part, 1, piece);
  }

  void run_loop(const Op& op, const ir::Region& region, Piece* piece) {
    const Graph& body = region.body();
    const int64_t trips = op.attributes.integer("trip");
    is_maximum_ |= op.attributes.boolean("while", false);
    const bool has_conditions = std::any_of(body.ops().begin(), body.ops().end(),
                                            [](const auto& inner) { return inner->is(ir::kind::kIf); });
    if (!has_conditions) return append(called(body), static_cast<double>(trips), piece);
    // Iterations whose conditions are equal are one piece.
    std::map<std::vector<std::optional<bool>>, std::pair<size_t, int64_t>> variants;
    for (int64_t index = 0; index < trips; ++index) {
      const KnownScalars known(body, index);
      const auto [found, is_new] = variants.try_emplace(known.conditions(), 0, 0);
      if (is_new) found->second.first = piece_of(body, known);
      ++found->second.second;
    }
    for (const auto& [conditions, variant] : variants)
      append(variant.first, static_cast<double>(variant.second), piece);
  }

  // IPUs that take part begin together; an iteration ends when all of them are done.
  void append(size_t part, double times, Piece* piece) const {
    const Piece& inner = pieces_[part];
    double begin = 0;
    for (size_t i = 0; i < ipus_.size(); ++i)
      if (inner.used[i]) begin = std::max(begin, piece->clocks[i]);
    for (size_t i = 0; i < ipus_.size(); ++i) {
      if (!inner.used[i]) continue;
      piece->used[i] = 1;
      piece->clocks[i] = begin + (times == 1 ? inner.clocks[i] : times * inner.end());
    }
    if (times > 0) piece->parts.push_back({part, times});
  }

  void add_up(size_t whole, ProgramTime* time) const {
    std::vector<double> executions(pieces_.size(), 0);
    executions[whole] = 1;
    std::vector<Cycles> by_ipu(ipus_.size()), beside(ipus_.size());
    std::map<std::string, TimeOf> kinds, lines, modules, guesses;
    for (size_t p = pieces_.size(); p-- > 0;) {  // a piece comes after its parts
      if (executions[p] == 0) continue;
      for (const auto& [part, times] : pieces_[p].parts) executions[part] += executions[p] * times;
      for (const auto& op : pieces_[p].graph->ops()) {
        const auto found = times_.find(op.get());
        if (found == times_.end()) continue;
        const Cycles cycles = found->second.cycles * executions[p];
        const auto add = [&](std::map<std::string, TimeOf>& to, const std::string& what) {
          TimeOf& of = to[what];
          of.executions += executions[p];
          of.cycles += cycles;
        };
        (ir::is_overlapped(*op) ? beside : by_ipu)[place_of(*op)] += cycles;
        if (op->is(ir::kind::kIpuCopy)) by_ipu[place_of_sender(*op)] += cycles;
        add(kinds, op->kind());
        add(lines, ir::user_line(op->location));
        add(modules, op->location ? op->location->module_path : "");
        if (found->second.is_guess) add(guesses, op->kind());
        time->operations += 2 * found->second.macs * executions[p];
      }
    }
    for (size_t i = 0; i < ipus_.size(); ++i)
      time->ipus.push_back({ipus_[i], by_ipu[i], std::max(time->cycles - by_ipu[i].total(), 0.0), beside[i]});
    time->kinds = sorted(std::move(kinds));
    time->lines = sorted(std::move(lines));
    time->modules = sorted(std::move(modules));
    time->guesses = sorted(std::move(guesses));
  }

  static std::vector<TimeOf> sorted(std::map<std::string, TimeOf> by_name) {
    std::vector<TimeOf> list;
    for (auto& [what, of] : by_name) {
      of.what = what;
      list.push_back(std::move(of));
    }
    std::stable_sort(list.begin(), list.end(),
                     [](const TimeOf& a, const TimeOf& b) { return a.cycles.total() > b.cycles.total(); });
    return list;
  }

  const target::Machine& machine_;
  target::Replication replication_;
  std::vector<int> ipus_;
  std::vector<Piece> pieces_;
  std::unordered_map<const Graph*, size_t> called_;
  std::unordered_map<const Op*, OpTime> times_;
  bool is_maximum_ = false;
};

}  // namespace

ProgramTime program_time(const ir::Module& module, const std::string& entry, const target::Machine& machine,
                         int64_t replicas) {
  const auto found = module.entry_points.find(entry);
  if (found == module.entry_points.end())
    throw Error(ErrorCode::kInvalidProgram, fmt::format("the program has no entry point '{}'", entry));
  return Schedule(module, machine, replicas).run(*module.find_graph(found->second));
}

}  // namespace ipu::report
