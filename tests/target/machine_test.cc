#include "target/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/error.h"
#include "tests/thrown.h"

namespace ipu::target {
namespace {

// The message without its first words.
std::string refusal(const std::string& text) {
  std::string message = message_of([&] { parse_machine("mine", text, "mine.json"); });
  const std::string head = "machine file not understood [IPU-E503]: ";
  return message.starts_with(head) ? message.substr(head.size()) : message;
}

TEST(Machines, of_the_package_say_where_every_number_comes_from) {
  for (const std::string& name : machine_names()) {
    const Machine* machine = find_machine(name);
    ASSERT_NE(machine, nullptr) << name;
    EXPECT_FALSE(machine->about.empty()) << name;
    ASSERT_EQ(machine->numbers.size(), machine_keys().size());
    for (size_t i = 0; i < machine->numbers.size(); ++i) {
      EXPECT_EQ(machine->numbers[i].key, machine_keys()[i].name);
      EXPECT_GT(machine->numbers[i].source.size(), 5u) << name << " " << machine->numbers[i].key;
      EXPECT_NE(machine->numbers[i].source, "this file") << name << " " << machine->numbers[i].key;
    }
  }
}

TEST(Machines, are_the_chips_and_systems_of_the_data_sheets) {
  const System gc2 = find_machine("gc2")->system, pod64 = find_machine("pod64")->system;
  EXPECT_EQ(gc2.tiles_per_ipu, 1216);
  EXPECT_EQ(gc2.bytes_per_tile, 262144);
  EXPECT_EQ(gc2.clock_hz, 1.6e9);
  EXPECT_EQ(pod64.num_ipus, 64);
  EXPECT_EQ(pod64.tiles_per_ipu, 1472);
  EXPECT_EQ(pod64.bytes_per_tile, 638976);
  EXPECT_EQ(pod64.clock_hz, 1.33e9);
  EXPECT_EQ(find_machine("bow-pod64")->system.clock_hz, 1.85e9);
  EXPECT_EQ(find_machine("c600")->system.clock_hz, 1.5e9);
  EXPECT_EQ(find_machine("toy")->system.tiles_per_ipu, 16);
  EXPECT_EQ(find_machine("pod8"), nullptr);
}

TEST(Machines, have_few_numbers_without_a_source) {
  int fitted = 0, chosen = 0, measured = 0;
  std::vector<std::string> seen;
  for (const std::string& name : machine_names())
    for (const MachineNumber& number : find_machine(name)->numbers) {
      if (std::find(seen.begin(), seen.end(), number.place) != seen.end()) continue;
      seen.push_back(number.place);
      const bool is_chosen = number.tag == Tag::kFitted && number.rows.starts_with("none");
      fitted += number.tag == Tag::kFitted && !is_chosen;
      chosen += is_chosen;
      measured += number.tag == Tag::kMeasured;
    }
  EXPECT_LE(fitted, 15);
  EXPECT_LE(fitted + chosen, 30);
  EXPECT_LE(measured, 60);
}

TEST(Machines, of_users_inherit_and_change_what_they_like) {
  const Machine mine = parse_machine("mine", R"({
  // A comment.
  "inherits": "bow-pod16",
  "tiles": 100,
  "clock_hz": {"value": 2e9, "tag": "measured", "source": "the card on my desk"}
})",
                                     "mine.json");
  EXPECT_EQ(mine.system.name, "mine");
  EXPECT_EQ(mine.system.num_ipus, 16);
  EXPECT_EQ(mine.system.tiles_per_ipu, 100);
  EXPECT_EQ(mine.number("tiles").source, "this file");
  EXPECT_EQ(mine.number("tiles").place, "mine.json:4");
  EXPECT_EQ(mine.number("clock_hz").tag, Tag::kMeasured);
  EXPECT_EQ(mine.number("workers").place, "machines/gc200.json:6");
  EXPECT_EQ(
      difference(*find_machine("bow-pod16"), mine),
      "                                bow-pod16           mine\n"
      "tiles                                1472            100          machines/gc200.json:5, "
      "mine.json:4\n"
      "clock_hz                       1850000000     2000000000 Hz       machines/bow.json:5, mine.json:5\n");
}

TEST(Machines, are_found_by_path_and_read_once) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "machines_of_a_user";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "desk.json").string();
  std::ofstream(path) << R"({"inherits": "toy", "tiles": 7})";
  const Machine* machine = find_machine(path);
  EXPECT_EQ(machine->name, "desk");
  EXPECT_EQ(machine->whole("tiles"), 7);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(find_machine(path), machine);
}

TEST(MachineErrors, a_file_that_cannot_be_read) {
  EXPECT_EQ(message_of([] { find_machine("/nowhere/desk.json"); }),
            "machine file cannot be read [IPU-E504]: /nowhere/desk.json: No such file or directory");
}

TEST(MachineErrors, text_that_is_no_json) {
  EXPECT_TRUE(refusal("{\n\"tiles\": 3,\n\"ipus\" 4}")
                  .starts_with("mine.json:3: this is no JSON (comments are allowed), near '4':"))
      << refusal("{\n\"tiles\": 3,\n\"ipus\" 4}");
}

TEST(MachineErrors, something_else_than_an_object) {
  EXPECT_EQ(refusal("[1]"), "mine.json:1: a machine is an object of numbers, and this is a list");
}

TEST(MachineErrors, an_unknown_key_with_the_nearest_one) {
  EXPECT_EQ(refusal("{\"inherits\": \"toy\",\n\"tilse\": 3}"),
            "mine.json:2: 'tilse' is unknown (did you mean 'tiles'?): `poptorch machine` lists the keys");
  EXPECT_EQ(refusal("{\"inherits\": \"toy\",\n\"colour\": 3}"),
            "mine.json:2: 'colour' is unknown: `poptorch machine` lists the keys");
}

TEST(MachineErrors, a_key_that_stands_twice) {
  EXPECT_EQ(refusal("{\"tiles\": 3,\n\n\"tiles\": 4}"), "mine.json:3: 'tiles' stands twice, first in line 1");
}

TEST(MachineErrors, a_value_outside_its_range) {
  EXPECT_EQ(refusal("{\"inherits\": \"toy\", \"tiles\": 0}"),
            "mine.json:1: 'tiles' is 0; it must be a whole number from 1 to 65536");
  EXPECT_EQ(refusal("{\"inherits\": \"toy\", \"clock_hz\": 1.33}"),
            "mine.json:1: 'clock_hz' is 1.33; it must be a number from 1000000 to 1e+11");
}

TEST(MachineErrors, a_part_where_whole_numbers_are_asked_for) {
  EXPECT_EQ(refusal("{\"inherits\": \"toy\", \"workers\": 2.5}"),
            "mine.json:1: 'workers' is 2.5; it must be a whole number from 1 to 64");
}

TEST(MachineErrors, values_of_another_kind) {
  EXPECT_EQ(refusal("{\"inherits\": \"toy\",\n\"tiles\": \"many\"}"),
            "mine.json:2: 'tiles' is a text; it must be a number");
  EXPECT_EQ(refusal("{\"inherits\": \"toy\",\n\"tiles\": true}"),
            "mine.json:2: 'tiles' is a truth value; it must be a number, an object or a text");
  EXPECT_EQ(refusal("{\"inherits\": 3}"), "mine.json:1: 'inherits' must be a text");
}

TEST(MachineErrors, an_object_without_a_value) {
  EXPECT_EQ(refusal("{\"inherits\": \"toy\",\n\"tiles\": {\"tag\": \"given\", \"source\": \"me\"}}"),
            "mine.json:2: 'tiles' has no \"value\" that is a number");
}

TEST(MachineErrors, an_unknown_tag_with_the_nearest_one) {
  EXPECT_EQ(
      refusal("{\"inherits\": \"toy\",\n\"tiles\": {\"value\": 3,\n\"tag\": \"gives\", \"source\": \"me\"}}"),
      "mine.json:3: 'tiles' has the tag 'gives' (did you mean 'given'?): known are given, measured, derived, "
      "fitted");
}

TEST(MachineErrors, an_unknown_field_with_the_nearest_one) {
  EXPECT_EQ(
      refusal("{\"inherits\": \"toy\",\n\"tiles\": {\"value\": 3,\n\"sorce\": \"me\"}}"),
      "mine.json:3: 'sorce' of 'tiles' is unknown (did you mean 'source'?): known are value, tag, source, "
      "formula, meaning, rows, without");
}

TEST(MachineErrors, a_tag_without_what_it_promises) {
  EXPECT_EQ(refusal("{\"inherits\": \"toy\", \"tiles\": {\"value\": 3, \"tag\": \"measured\"}}"),
            "mine.json:1: 'tiles' is measured and says no \"source\"");
  EXPECT_EQ(refusal("{\"inherits\": \"toy\", \"tiles\": {\"value\": 3, \"tag\": \"derived\"}}"),
            "mine.json:1: 'tiles' is derived and says no \"formula\"");
  EXPECT_EQ(
      refusal("{\"inherits\": \"toy\", \"tiles\": {\"value\": 3, \"tag\": \"fitted\", \"meaning\": \"m\"}}"),
      "mine.json:1: 'tiles' is fitted and says no \"rows\"");
}

TEST(MachineErrors, inheritance_from_an_unknown_machine) {
  EXPECT_EQ(
      refusal("{\"inherits\": \"pod46\"}"),
      "mine.json:1: no machine has the name 'pod46' (did you mean 'pod16'?): known are bow, bow-pod16, bow-pod64, "
      "c600, gc2, gc200, mk1-16, pod16, pod4, pod64, toy");
}

TEST(MachineErrors, a_machine_that_lacks_a_number) {
  EXPECT_EQ(refusal("{\"ipu_version\": 2}"),
            "mine.json:1: 'ipus' is missing, and no machine is inherited (\"inherits\": \"gc200\")");
}

TEST(MachineErrors, a_part_of_the_memory_that_is_larger_than_it) {
  EXPECT_EQ(
      refusal("{\"inherits\": \"gc200\",\n\"bytes_per_tile\": 65536}"),
      "machines/gc200.json:11: 'executable_bytes' is 212992, more than 'bytes_per_tile', 65536 (mine.json:2)");
}

}  // namespace
}  // namespace ipu::target
