// Machines as numbers, each with where it comes from: the files of machines/, which are part of the library, and those of users.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "target/system.h"

namespace ipu::target {

enum class Tag { kGiven, kMeasured, kDerived, kFitted };
const char* word(Tag tag);

struct MachineNumber {
  std::string key;  // "tiles"
  double value = 0;
  Tag tag = Tag::kGiven;
  std::string source;   // where it was found or how it is computed; of a fitted one, what it means
  std::string rows;     // fitted: the measurements it was fitted on
  std::string without;  // fitted: what changes without it
  std::string place;    // "gc200.json:8"
};

// Every key of a machine: what it says, its unit and its range.
struct MachineKey {
  std::string_view name, unit, meaning;
  double least, most;
  bool whole;  // takes whole numbers only
};
const std::vector<MachineKey>& machine_keys();

class Machine {
 public:
  std::string name, about;
  System system;                       // what the emulator needs of the numbers
  std::vector<MachineNumber> numbers;  // one of each key, in the order of machine_keys()

  const MachineNumber& number(std::string_view key) const;  // the key must exist
  double operator[](std::string_view key) const { return number(key).value; }
  int whole(std::string_view key) const { return static_cast<int>(number(key).value); }
};

std::vector<std::string> machine_names();  // sorted
// A machine by its name, or by the path of a file (a word with '/' or the end ".json"), which is read once per process.
// nullptr: no machine has that name. A file that cannot be read is Error(kFileAccess), one that is not understood
// Error(kEnvironment) with the line, the key, what is allowed and the nearest known key.
const Machine* find_machine(std::string_view name_or_path);

// As find_machine of a file, from its text.
Machine parse_machine(std::string_view name, std::string_view text, const std::string& path);

std::string describe(const Machine& machine);
std::string difference(const Machine& one, const Machine& other);

// The known word that is nearest to `word`, unless all are too far: " (did you mean 'tiles'?)", or nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

// The files of machines/, in a source that the build writes.
struct MachineFile {
  const char* name;
  const char* text;
};
extern const std::vector<MachineFile> machine_files;

}  // namespace ipu::target
