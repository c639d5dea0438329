#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/expected_error.h"
#include "report/report.h"

namespace ipu::report {
namespace {

constexpr size_t kMostTimes = 12;   // of one table
constexpr size_t kMostPieces = 10;  // of variables and rings

std::string with_commas(double number) {
  return fmt::to_string(fmt::group_digits(static_cast<int64_t>(number)));
}

std::string as_time(double seconds) {
  if (seconds >= 1) return fmt::format("{:.4g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.4g} us", seconds * 1e6);
}

// "12.3 % compute, 4.5 % exchange"; nothing of what takes no time.
std::string causes(const Cycles& c, double whole) {
  std::string text;
  const std::pair<const char*, double> parts[] = {
      {"compute", c.compute}, {"exchange", c.exchange}, {"overhead", c.overhead},
      {"links", c.links},     {"host", c.host},         {"streaming memory", c.streaming}};
  for (const auto& [name, cycles] : parts)
    if (cycles > 0)
      text += fmt::format("{}{:.1f} % {}", text.empty() ? "" : ", ", 100 * cycles / whole, name);
  return text;
}

std::string head(const Report& r) {
  const IpuMemoryReport& fullest = r.fullest();
  std::string text =
      fmt::format("{}: IPU {} needs {} bytes on its fullest tile, of {}\n", word(r.verdict), fullest.ipu,
                  with_commas(static_cast<double>(fullest.bytes)), with_commas(r.verdict.bytes_per_tile));
  text += fmt::format("a run takes {}{} cycles on {}, {} at {:.4g} GHz", r.time.is_maximum ? "at most " : "",
                      with_commas(r.time.cycles), r.machine->name, as_time(r.time.seconds),
                      (*r.machine)["clock_hz"] / 1e9);
  if (r.time.seconds > 0) {
    text += fmt::format(": {:.4g} runs/s", 1 / r.time.seconds);
    if (r.request.samples > 0)
      text += fmt::format(", {:.4g} samples/s", static_cast<double>(r.request.samples) / r.time.seconds);
    if (r.time.operations > 0)
      text += fmt::format(", {:.4g} TFLOP/s of products in each replica",
                          r.time.operations / r.time.seconds / 1e12);
  }
  if (r.time.maximum_cycles > r.time.cycles)
    text += fmt::format(
        "\nwith as many iterations as loops are expected to run; to their bounds at most {} cycles, {}",
        with_commas(r.time.maximum_cycles), as_time(r.time.maximum_cycles / (*r.machine)["clock_hz"]));
  text += fmt::format("\n{} replica(s) of {} IPU(s), {}", r.request.replicas, r.time.ipus.size(),
                      ir::to_string(r.strategy.schedule));
  if (r.strategy.schedule == ir::Schedule::kPipelined)
    text += fmt::format(" in {} forward stages", r.strategy.forward_stages);
  if (r.micro_batches() > 0)
    text += fmt::format(", {} micro-batch(es) a run", with_commas(r.micro_batches()));
  if (r.strategy.io_tiles > 0) text += fmt::format(", {} I/O tiles on each", r.strategy.io_tiles);
  if (r.strategy.recomputation != ir::RecomputationMode::kNone)
    text += fmt::format(", recomputation {}", ir::to_string(r.strategy.recomputation));
  return text + fmt::format("\nexpected error of the time, as one of {}: {}\nof the bytes: {}\n", r.figure,
                            describe_error(r.figure), describe_error("memory"));
}

std::string memory_of_text(const Report& r) {
  std::string text;
  if (!r.verdict.limits.empty()) text += diagnosis(r.verdict) + "\n";
  text += fmt::format("memory of the fullest tile of each IPU, of {} bytes:\n",
                      with_commas(r.verdict.bytes_per_tile));
  for (size_t i = 0; i < r.memory.size(); ++i) {
    const IpuMemoryReport& ipu = r.memory[i];
    text += fmt::format("  IPU {}: {}", ipu.ipu, with_commas(static_cast<double>(ipu.bytes)));
    for (size_t c = 0; c < kMemoryClasses; ++c)
      if (ipu.classes[c] > 0)
        text += fmt::format(", {} {}", word(static_cast<MemoryClass>(c)),
                            with_commas(static_cast<double>(ipu.classes[c])));
    const TileMemory& tile = r.verdict.ipus[i];
    if (!tile.peak_op.empty())
      text +=
          fmt::format("; peak at {}{}", tile.peak_op, tile.peak_line.empty() ? "" : ", " + tile.peak_line);
    text += "\n";
  }
  return text;
}

std::string ipus_of_text(const Report& r) {
  std::string text = "time by IPU of a replica:\n";
  const double whole = std::max(r.time.cycles, 1.0);
  for (const IpuTime& ipu : r.time.ipus) {
    text += fmt::format("  IPU {}: busy {:.1f} %", ipu.ipu, 100 * ipu.cycles.total() / whole);
    if (ipu.cycles.total() > 0) text += fmt::format(" ({})", causes(ipu.cycles, whole));
    text += fmt::format(", waiting {:.1f} %", 100 * ipu.waiting / whole);
    if (ipu.beside.total() > 0) text += fmt::format("; I/O tiles {:.1f} %", 100 * ipu.beside.total() / whole);
    text += "\n";
  }
  return text;
}

std::string table(const char* title, const std::vector<TimeOf>& times, double busy, const char* unknown) {
  if (times.empty() || busy == 0) return "";
  std::string text = fmt::format("{}:\n", title);
  const size_t shown = std::min(times.size(), kMostTimes);
  for (size_t i = 0; i < shown; ++i) {
    const TimeOf& of = times[i];
    text += fmt::format("  {:5.1f} %  {:>15}  {} x {}: {} [{}]\n", 100 * of.cycles.total() / busy,
                        with_commas(of.cycles.total()), with_commas(of.executions),
                        of.what.empty() ? unknown : of.what, causes(of.cycles, of.cycles.total()),
                        short_error(of.figure));
  }
  if (times.size() > shown) {
    double rest = 0;
    for (size_t i = shown; i < times.size(); ++i) rest += times[i].cycles.total();
    text += fmt::format("  {:5.1f} %  {:>15}  {} more\n", 100 * rest / busy, with_commas(rest),
                        times.size() - shown);
  }
  return text;
}

std::string shape_of(const target::ProductShape& s) {
  const std::string groups = s.groups > 1 ? fmt::format("{}, ", s.groups) : "";
  if (s.is_plain() && s.batch == 1 && s.columns == 1)
    return fmt::format("[{}{}, {}] x [{}{}, {}]", groups, s.rows, s.inputs, groups, s.inputs, s.outputs);
  return fmt::format("{} field(s) of {}x{}, kernel {}x{}, {} channels to {}{}", s.batch, s.rows, s.columns,
                     s.kernel_rows, s.kernel_columns, s.inputs, s.outputs,
                     s.groups > 1 ? fmt::format(" in {} groups", s.groups) : "");
}

std::string split_of(const target::ProductPlan& plan) {
  return fmt::format("{}, {}, {} step(s), {} tiles, {} cycles", target::word(plan.split.method),
                     target::describe_split(plan.split), plan.split.steps, plan.split.tiles(),
                     with_commas(std::round(plan.cycles.total())));
}

std::string products_of_text(const Report& r) {
  if (r.products.empty()) return "";
  std::string text = "products, those of most cycles:\n";
  for (const ProductReport& p : r.products) {
    text += fmt::format("  {} x {} {}{}: {} cycles each [{}]\n", with_commas(p.executions), p.kind,
                        shape_of(p.shape), p.line.empty() ? "" : " at " + p.line, with_commas(p.cycles),
                        short_error(p.figure));
    text +=
        fmt::format("    chosen: {}\n    second: {}; ", split_of(p.choice.best), split_of(p.choice.second));
    const auto ours = p.choice.best.cycles.parts()[p.choice.lost_in];
    const auto theirs = p.choice.second.cycles.parts()[p.choice.lost_in];
    text += p.choice.second_fits ? fmt::format("it lost most in {}, {} cycles against {}\n", theirs.first,
                                               with_commas(theirs.second), with_commas(ours.second))
                                 : "it does not fit\n";
  }
  return text;
}

std::string guesses_of_text(const ProgramTime& time) {
  if (time.guesses.empty()) return "";
  std::string text =
      fmt::format("{} kind(s) of operations are priced by their bytes alone:", time.guesses.size());
  for (const TimeOf& of : time.guesses) text += fmt::format(" {} ({})", of.what, with_commas(of.executions));
  return text + "\n";
}

}  // namespace

std::string to_text(const Report& r) {
  double busy = 0;
  for (const IpuTime& ipu : r.time.ipus) busy += ipu.cycles.total() + ipu.beside.total();
  return head(r) + ipus_of_text(r) +
         table("operations by kind [half and nine of ten measurements of what takes most are within]",
               r.time.kinds, busy, "") +
         table("lines", r.time.lines, busy, "(no line is known)") +
         table("modules", r.time.modules, busy, "(in no module)") + products_of_text(r) +
         guesses_of_text(r.time) + memory_of_text(r) +
         to_text(r.program, r.machine->system.bytes_per_ipu(), kMostPieces);
}

}  // namespace ipu::report
