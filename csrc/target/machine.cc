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
#include "target/machine_of_system.h"

namespace ipu::target {
namespace {

// Of machines/, read when one is asked for, those that others inherit from on the way.
const Machine* shipped_machine(std::string_view name) {
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

// Machines of files and those that were made of others, which stay alive and the same. Without a lock, which a fork could leave taken.
struct MadeMachine {
  std::string path;  // "": of no file
  Machine machine;
  const Machine* base = nullptr;  // of with_tiles()
  MadeMachine* next = nullptr;
};
std::atomic<MadeMachine*> made_machines = nullptr;

template <class Matches>
const Machine* find_made(const Matches& matches) {
  for (MadeMachine* made = made_machines.load(); made != nullptr; made = made->next)
    if (matches(*made)) return &made->machine;
  return nullptr;
}

// But for the number of IPUs.
bool is_alike(const System& a, const System& b) {
  return a.name == b.name && a.ipu_version == b.ipu_version && a.tiles_per_ipu == b.tiles_per_ipu &&
         a.bytes_per_tile == b.bytes_per_tile && a.clock_hz == b.clock_hz;
}
bool is_same(const System& a, const System& b) { return is_alike(a, b) && a.num_ipus == b.num_ipus; }

const Machine& keep(std::string path, Machine machine, const Machine* base = nullptr) {
  auto* made = new MadeMachine{std::move(path), std::move(machine), base, made_machines.load()};
  while (!made_machines.compare_exchange_weak(made->next, made)) {
  }
  return made->machine;
}

// Files are read once.
const Machine& machine_of_file(const std::string& path) {
  const auto* known = find_made([&](const MadeMachine& made) { return made.path == path; });
  if (known != nullptr) return *known;
  const std::string file = path.substr(path.rfind('/') + 1);
  const std::string name = file.ends_with(".json") ? file.substr(0, file.size() - 5) : file;
  return keep(path, parse_machine(name, read(path), path));
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
  return shipped_machine(name);
}

const Machine& machine_of(const System& system) {
  if (const Machine* known = shipped_machine(system.name); known != nullptr && is_same(known->system, system))
    return *known;
  const Machine* made = find_made(
      [&](const MadeMachine& of) { return of.base == nullptr && is_same(of.machine.system, system); });
  if (made != nullptr) return *made;
  const Machine* base = shipped_machine(system.name);
  if (base == nullptr)
    base = find_made(
        [&](const MadeMachine& of) { return of.base == nullptr && is_alike(of.machine.system, system); });
  if (base == nullptr)
    base = shipped_machine(system.ipu_version == 1 ? "gc2" : system.ipu_version == 2 ? "gc200" : "bow");
  Machine machine = *base;
  machine.name = system.name;
  machine.system = system;
  for (MachineNumber& number : machine.numbers) {
    if (number.key == "tiles") number.value = system.tiles_per_ipu;
    if (number.key == "ipus") number.value = system.num_ipus;
  }
  return keep("", std::move(machine));
}

const Machine& with_tiles(const Machine& machine, int tiles) {
  if (tiles == machine.whole("tiles")) return machine;
  const Machine* made = find_made(
      [&](const MadeMachine& of) { return of.base == &machine && of.machine.system.tiles_per_ipu == tiles; });
  if (made != nullptr) return *made;
  Machine fewer = machine;
  fewer.system.tiles_per_ipu = tiles;
  for (MachineNumber& number : fewer.numbers)
    if (number.key == "tiles") number.value = tiles;
  return keep("", std::move(fewer), &machine);
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
