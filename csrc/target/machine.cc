#include "target/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "support/error.h"

namespace ipu::target {
namespace {

// Of machines/, read when one is asked for, those that others inherit from on the way.
const Machine* known_machine(std::string_view name) {
  struct Known {
    std::string_view text;
    std::string path;
    std::atomic<const Machine*> machine = nullptr;
  };
  static const std::map<std::string_view, std::unique_ptr<Known>> known = [] {
    std::map<std::string_view, std::unique_ptr<Known>> all;
    for (const MachineFile& file : machine_files)
      all.emplace(file.name,
                  std::make_unique<Known>(file.text, "machines/" + std::string(file.name) + ".json"));
    return all;
  }();
  const auto found = known.find(name);
  if (found == known.end()) return nullptr;
  Known& entry = *found->second;
  if (const Machine* machine = entry.machine.load(); machine != nullptr) return machine;
  auto parsed = std::make_unique<Machine>(parse_machine(name, entry.text, entry.path));
  const Machine* nobody = nullptr;
  return entry.machine.compare_exchange_strong(nobody, parsed.get()) ? parsed.release() : nobody;
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || !text)
    throw Error(ErrorCode::kFileAccess,
                fmt::format("machine file cannot be read: {}: {}", path, std::strerror(errno)));
  return text.str();
}

// Files are read once: what they say stays alive and the same. Without a lock, which a fork could leave taken.
const Machine& machine_of_file(const std::string& path) {
  struct Node {
    std::string path;
    Machine machine;
    Node* next;
  };
  static std::atomic<Node*> first = nullptr;
  Node* head = first.load();
  for (Node* node = head; node != nullptr; node = node->next)
    if (node->path == path) return node->machine;
  const std::string file = path.substr(path.rfind('/') + 1);
  const std::string name = file.ends_with(".json") ? file.substr(0, file.size() - 5) : file;
  Node* node = new Node{path, parse_machine(name, read(path), path), head};
  while (!first.compare_exchange_weak(node->next, node)) {
  }
  return node->machine;
}

std::string shown(const MachineNumber& number) { return fmt::format("{:.10g}", number.value); }

std::string origin(const MachineNumber& number) {
  if (number.tag != Tag::kFitted) return number.source;
  return fmt::format("{}; fitted on {}; without it {}", number.source, number.rows, number.without);
}

}  // namespace

const char* word(Tag tag) {
  switch (tag) {
    case Tag::kGiven:
      return "given";
    case Tag::kMeasured:
      return "measured";
    case Tag::kDerived:
      return "derived";
    default:
      return "fitted";
  }
}

const MachineNumber& Machine::number(std::string_view key) const {
  for (const MachineNumber& number : numbers)
    if (number.key == key) return number;
  check_failed("the key of a machine exists", __FILE__, __LINE__, std::string(key));
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const MachineFile& file : machine_files) names.emplace_back(file.name);
  std::sort(names.begin(), names.end());
  return names;
}

const Machine* find_machine(std::string_view name) {
  if (name.find('/') != std::string_view::npos || name.ends_with(".json"))
    return &machine_of_file(std::string(name));
  return known_machine(name);
}

std::string describe(const Machine& machine) {
  std::string text = fmt::format("{}: {}\n\n", machine.name, machine.about);
  for (size_t i = 0; i < machine.numbers.size(); ++i) {
    const MachineNumber& number = machine.numbers[i];
    text += fmt::format("{:<26} {:>14} {:<8} {:<8}  {}\n{:62}{} ({})\n", number.key, shown(number),
                        machine_keys()[i].unit, word(number.tag), machine_keys()[i].meaning, "",
                        origin(number), number.place);
  }
  const double tiles = machine["tiles"], clock = machine["clock_hz"];
  text += "\nComputed from these, of one IPU:\n";
  text += fmt::format("{:<26} {:>14.10g} B\n", "memory", tiles * machine["bytes_per_tile"]);
  text +=
      fmt::format("{:<26} {:>14.4g} B/s\n", "exchange", tiles * machine["exchange_bytes_per_cycle"] * clock);
  for (const char* kind : {"fp16_16", "fp16_32", "fp32", "fp8"})
    if (const double macs = machine[std::string(kind) + "_macs"]; macs > 0)
      text += fmt::format("peak {:<21} {:>14.4g} flop/s\n", kind, 2 * macs * tiles * clock);
  return text;
}

std::string difference(const Machine& one, const Machine& other) {
  std::string text = fmt::format("{:<26} {:>14} {:>14}\n", "", one.name, other.name);
  for (size_t i = 0; i < one.numbers.size(); ++i) {
    const MachineNumber &a = one.numbers[i], &b = other.numbers[i];
    if (a.value == b.value) continue;
    text += fmt::format("{:<26} {:>14} {:>14} {:<8} {}, {}\n", a.key, shown(a), shown(b),
                        machine_keys()[i].unit, a.place, b.place);
  }
  return text;
}

}  // namespace ipu::target
