#include "report/program_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "ir/structure.h"

namespace ipu::report {
namespace {

constexpr size_t kMostLines = 3;  // of one kind of ops

std::string grouped(int64_t number) { return fmt::to_string(fmt::group_digits(number)); }

template <class Pair>
void sort_most_first(std::vector<Pair>& counted) {
  std::stable_sort(counted.begin(), counted.end(),
                   [](const Pair& a, const Pair& b) { return a.second > b.second; });
}

std::vector<OpsOfKind> count_ops(const ir::Module& module) {
  struct Count {
    int64_t all = 0, recomputed = 0;
    std::map<std::string, int64_t> lines;
  };
  std::map<std::string, Count> kinds;
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops()) {
      Count& count = kinds[op->kind()];
      ++count.all;
      count.recomputed += op->settings.recompute == ir::Recompute::kRecompute;
      if (std::string line = ir::user_line(op->location); !line.empty()) ++count.lines[line];
    }
  std::vector<OpsOfKind> ops;
  for (const auto& [kind, count] : kinds) {
    ops.push_back({kind, count.all, count.recomputed, {count.lines.begin(), count.lines.end()}});
    sort_most_first(ops.back().lines);
  }
  std::stable_sort(ops.begin(), ops.end(),
                   [](const OpsOfKind& a, const OpsOfKind& b) { return a.count > b.count; });
  return ops;
}

std::string text_of(const OpsOfKind& ops) {
  std::string text = fmt::format("  {} {}", ops.count, ops.kind);
  if (ops.recomputed > 0) text += fmt::format(", {} of them recomputed", ops.recomputed);
  for (size_t i = 0; i < std::min(ops.lines.size(), kMostLines); ++i)
    text += fmt::format("{}{} ({})", i == 0 ? ": " : ", ", ops.lines[i].first, ops.lines[i].second);
  if (ops.lines.size() > kMostLines) text += fmt::format(" and {} more lines", ops.lines.size() - kMostLines);
  return text + "\n";
}

}  // namespace

ProgramReport describe(const ir::Module& module) {
  ProgramReport report{tile_memory(module), streaming_memory(module), {}, {}, count_ops(module)};
  for (const ir::Variable& v : module.variables())
    report.variables.push_back(
        {v.name, ir::to_string(v.type), v.role, ipu_of(v), v.type.bytes(), v.remote_buffer});
  for (const ir::Ring& r : module.rings())
    report.rings.push_back({r.name, ir::to_string(r.type) + fmt::format(" x {}", r.capacity),
                            r.from_ipu == r.to_ipu ? "stash" : fmt::format("channel from IPU {}", r.from_ipu),
                            ipu_of(r), bytes_of(r), ""});
  return report;
}

std::string to_text(const ProgramReport& report, int64_t bytes_per_ipu, size_t most) {
  std::string text = "memory by IPU of a replica, in bytes:\n";
  for (const IpuMemory& of : report.memory)
    text += fmt::format(
        "  IPU {}: {}{}: {} of variables, {} of constants, {} of rings, {} of values alive at the peak\n",
        of.ipu, grouped(of.total()), bytes_per_ipu > 0 ? " of " + grouped(bytes_per_ipu) : "",
        grouped(of.variables), grouped(of.constants), grouped(of.rings), grouped(of.values));
  if (report.streaming_bytes > 0)
    text += fmt::format("  streaming memory: {}\n", grouped(report.streaming_bytes));
  auto list = [&](const char* title, std::vector<ProgramReport::Piece> pieces) {
    if (pieces.empty()) return;
    text += fmt::format("{}:\n", title);
    const size_t count = pieces.size();
    if (most > 0 && count > most) {
      std::stable_sort(pieces.begin(), pieces.end(),
                       [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
      pieces.resize(most);
    }
    for (const ProgramReport::Piece& piece : pieces)
      text +=
          fmt::format("  {}: {}, {}, IPU {}, {} bytes{}\n", piece.name, piece.type, piece.what, piece.ipu,
                      grouped(piece.bytes), piece.remote.empty() ? "" : " in remote buffer " + piece.remote);
    if (count > pieces.size()) text += fmt::format("  {} more\n", count - pieces.size());
  };
  list("variables", report.variables);
  list("rings", report.rings);
  text += "ops by kind:\n";
  for (const OpsOfKind& ops : report.ops) text += text_of(ops);
  return text;
}

}  // namespace ipu::report
