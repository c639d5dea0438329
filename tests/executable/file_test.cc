// Files of executables: what goes in comes out; whatever is wrong in a file is an Error that names it.
#include "executable/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "emulator/engine.h"
#include "executable/digest.h"
#include "executable/format/json_text.h"
#include "ir/text/text.h"
#include "support/foreign_text.h"
#include "tests/executable/sample_file.h"
#include "tests/hang_limit.h"
#include "tests/lowering/oracle.h"

namespace ipu::executable {
namespace {

const Signature kNoSignature;

std::string message_of(const std::vector<std::byte>& bytes) {
  try {
    read_all(Container::parse(bytes, "FILE"));
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

std::string with_section(const std::string& section, const std::string& from, const std::string& to) {
  Container container = Container::parse(sample_bytes(3), "FILE");
  std::string text(container.section(section));
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return message_of(resealed(container, section, text));
}

TEST(ExecutableFile, a_program_comes_back_as_it_was) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(seed);
    Executable before = sample_executable(seed);
    Signature signature = sample_signature(*before.program);
    ContainerWriter writer;
    add_executable(writer, before, signature);
    std::vector<std::byte> bytes = writer.bytes();
    Container container = Container::parse(bytes, "FILE");
    Executable after = read_executable(container);
    Signature signature_after = read_signature(container, after.program.get());
    EXPECT_EQ(program::print(*after.program), program::print(*before.program));
    EXPECT_EQ(after.ir_text, before.ir_text);
    EXPECT_EQ(after.statistics.counts, before.statistics.counts);
    EXPECT_EQ(after.ipus_reserved, before.ipus_reserved);
    ContainerWriter again;
    add_executable(again, after, signature_after);
    EXPECT_EQ(again.bytes(), bytes);  // every field, not only what print() shows
  }
}

TEST(ExecutableFile, a_program_that_was_read_computes_the_same) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    auto module = testing_random::RandomProgram(seed, 1).make();
    ContainerWriter writer;
    Executable executable;
    executable.program = std::make_shared<const program::Program>(lowering::lower(*module, {}));
    Signature signature = sample_signature(*executable.program);
    add_executable(writer, executable, signature);
    Container container = Container::parse(writer.bytes(), "FILE");
    testing_oracle::compare(*module, *read_executable(container).program, 2e-4, 0.25);
  }
}

// One adds to the variable, the other gives it.
TEST(ExecutableFile, a_step_of_several_ops_keeps_their_lines) {
  const std::unique_ptr<ir::Module> module = ir::parse(R"(
  stream @x: f32[8] {direction="host_to_device"}
  stream @y: f32[8] {direction="device_to_host"}
  entry main = @main
  graph @main() -> () {
    %x = host_load() {stream=@x} : f32[8] loc("m.py":1)
    %e = exp(%x) : f32[8] loc("m.py":2, "first")
    %y = tanh(%e) : f32[8] loc("m.py":3)
    host_store(%y) {stream=@y} loc("m.py":4)
    return
  })");
  ContainerWriter writer;
  add_executable(writer, compile(*module, target::find_system("pod16"), {}), kNoSignature);
  const Executable after = read_executable(Container::parse(writer.bytes(), "FILE"));
  int fused = 0;
  for (const program::Origin& origin : after.program->origins) {
    if (origin.op != "%y = fused_pointwise") continue;
    ++fused;
    EXPECT_EQ(origin.location, "m.py:3");
    EXPECT_EQ(origin.joined, std::vector<std::string>{"m.py:2 [first]"});
  }
  EXPECT_EQ(fused, 1);
}

const char* const kTwoEntryPoints = R"(
  variable @w: f32[] {initial=dense<f32[]: 1.0>}
  stream @y: f32[] {direction="device_to_host"}
  entry main = @main
  entry grow = @grow
  graph @main() -> () {
    %w = variable.read() {variable=@w | ipu=0} : f32[]
    host_store(%w) {stream=@y | ipu=0}
    return
  }
  graph @grow() -> () {
    %w = variable.read() {variable=@w | ipu=0} : f32[]
    %n = add(%w, %w) {| ipu=0} : f32[]
    variable.assign(%n) {variable=@w | ipu=0}
    return
  })";

TEST(ExecutableFile, entry_points_come_back) {
  Executable executable;
  executable.program =
      std::make_shared<const program::Program>(lowering::lower(*ir::parse(kTwoEntryPoints), {}));
  ASSERT_EQ(executable.program->entry_points, (std::vector<std::string>{"main", "grow"}));
  ContainerWriter writer;
  add_executable(writer, executable, kNoSignature);
  const Executable after = read_executable(Container::parse(writer.bytes(), "FILE"));
  EXPECT_EQ(program::print(*after.program), program::print(*executable.program));
  emulator::Engine engine(after.program, {.threads = 1});
  float y = 0;
  const emulator::StreamBinding none[] = {{nullptr, 0}};
  const emulator::StreamBinding arrays[] = {{reinterpret_cast<std::byte*>(&y), 1}};
  for (int i = 0; i < 3; ++i) engine.run(none, 1);
  engine.run(arrays);
  EXPECT_EQ(y, 8.0f);
}

TEST(ExecutableFile, entry_points_that_are_none_are_refused) {
  ContainerWriter writer;
  Executable executable;
  executable.program =
      std::make_shared<const program::Program>(lowering::lower(*ir::parse(kTwoEntryPoints), {}));
  add_executable(writer, executable, kNoSignature);
  const Container container = Container::parse(writer.bytes(), "FILE");
  const auto changed = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json json = nlohmann::json::parse(container.section("program"));
    change(json);
    return message_of(resealed(container, "program", json.dump()));
  };
  const std::string invalid = "corrupt file [IPU-E501]: FILE: program: invalid program [IPU-E411]: ";
  EXPECT_EQ(changed([](auto& json) {
              json["entry_points"] = {"main", "main"};
            }),
            invalid + "two entry points have one name.");
  EXPECT_EQ(changed([](auto& json) { json["entry_points"] = {"main"}; }),
            invalid + "IPU 0: 2 entry points begin, the program has 1.");
  EXPECT_EQ(changed([](auto& json) {
              json["ipus"][0]["entries"] = {0, 77};
            }),
            invalid + "IPU 0: its entry points are not one behind the other.");
  EXPECT_EQ(changed([](auto& json) { json["ipus"][0]["entries"] = nlohmann::json::array(); }),
            invalid + "IPU 0: its entry points do not begin.");
  EXPECT_EQ(
      changed([](auto& json) {
        json["replicas"] = 4096;
        for (int i = 0; i < 5000; ++i) json["entry_points"].push_back(std::to_string(i));
      }),
      "corrupt file [IPU-E501]: FILE: program: 5002 entry points with 1 streams for 4096 replicas are too "
      "many.");
}

TEST(ExecutableFile, programs_of_io_tiles_beyond_counting_and_without_an_ipu_are_refused) {
  ContainerWriter writer;
  Executable executable;
  executable.program =
      std::make_shared<const program::Program>(lowering::lower(*ir::parse(kTwoEntryPoints), {}));
  add_executable(writer, executable, kNoSignature);
  const Container container = Container::parse(writer.bytes(), "FILE");
  nlohmann::json json = nlohmann::json::parse(container.section("program"));
  nlohmann::json io = json["ipus"][0];
  io["io_of"] = 3;
  json["ipus"].push_back(io);
  EXPECT_EQ(
      message_of(resealed(container, "program", json.dump())),
      "corrupt file [IPU-E501]: FILE: program: invalid program [IPU-E411]: part 1 of 2 runs on I/O tiles of "
      "IPU 3; the programs of 1 IPUs come first.");
  json["replicas"] = 4096;
  for (int i = 0; i < 4100; ++i) json["ipus"].push_back(io);
  EXPECT_EQ(
      message_of(resealed(container, "program", json.dump())),
      "corrupt file [IPU-E501]: FILE: program: programs for 4102 IPUs and I/O tiles of 4096 replicas are too "
      "many.");
}

// Memory of each for every replica: their product must stay countable.
TEST(ExecutableFile, memories_beyond_counting_are_refused) {
  Executable executable;
  executable.program =
      std::make_shared<const program::Program>(lowering::lower(*ir::parse(kTwoEntryPoints), {}));
  const size_t there = executable.program->variables.size() + executable.program->rings.size();
  ContainerWriter writer;
  add_executable(writer, executable, kNoSignature);
  const Container container = Container::parse(writer.bytes(), "FILE");
  for (const char* table : {"variables", "remote_buffers", "rings"}) {
    nlohmann::json json = nlohmann::json::parse(container.section("program"));
    json["replicas"] = 4096;
    const nlohmann::json variable = json["variables"][0];
    const nlohmann::json spec{{"dtype", "f32"}, {"shape", nlohmann::json::array({4})}};
    const nlohmann::json one =
        std::string(table) == "variables" ? variable
        : std::string(table) == "rings"
            ? nlohmann::json{{"name", ""}, {"bytes", 4}, {"capacity", 1}, {"from_ipu", 0}, {"to_ipu", 0}}
            : nlohmann::json{{"name", ""}, {"spec", spec}, {"entries", 1}, {"ipu", 0}};
    for (int i = 0; i < 5000; ++i) json[table].push_back(one);
    EXPECT_EQ(message_of(resealed(container, "program", json.dump())),
              "corrupt file [IPU-E501]: FILE: program: " + std::to_string(5000 + there) +
                  " variables, remote buffers and rings for 4096 replicas are too many.")
        << table;
  }
}

TEST(ExecutableFile, attributes_of_every_kind_and_every_double_come_back) {
  program::Program program;
  program.ipus.resize(1);
  program::Instruction step;
  step.kernel = "copy";  // of a constant, which is one number
  program.constants.push_back(std::make_shared<const ConstantData>(
      ConstantData{DType::kF32, {}, std::vector<std::byte>(4, std::byte{9})}));
  program.ipus[0].buffers = {
      {.name = "constant", .storage = program::Storage::kConstant, .bytes = 4, .offset = 0, .index = 0},
      {.name = "copy", .bytes = 4}};
  program.ipus[0].arena_bytes = 64;
  step.operands = {{.buffer = 0, .spec = TensorSpec::plain(DType::kF32, {})}};
  step.results = {{.buffer = 1, .spec = TensorSpec::plain(DType::kF32, {})}};
  auto constant = std::make_shared<const ConstantData>(
      ConstantData{DType::kF8_143, {3}, std::vector<std::byte>(3, std::byte{9})});
  step.attributes = {{"a", true},
                     {"b", int64_t{INT64_MIN}},
                     {"c", -std::numeric_limits<double>::infinity()},
                     {"d", std::string("\xc3\xa4\n\"")},
                     {"e", DType::kF16},
                     {"f", Symbol{"g"}},
                     {"h", ConstantPtr(constant)},
                     {"i", std::vector<int64_t>{}},
                     {"j", std::vector<double>{0.1, -0.0, 5e-324}},
                     {"k", std::vector<std::string>{"x", ""}},
                     {"l", std::vector<Symbol>{{"y"}}}};
  program.ipus[0].instructions.push_back(step);
  Executable executable;
  executable.program = std::make_shared<const program::Program>(program);
  ContainerWriter writer;
  add_executable(writer, executable, kNoSignature);
  Executable after = read_executable(Container::parse(writer.bytes(), "FILE"));
  const Attributes& read = after.program->ipus[0].instructions[0].attributes;
  EXPECT_TRUE(read == step.attributes);
  EXPECT_TRUE(std::signbit(read.reals("j")[1]));
}

TEST(ExecutableFile, each_region_has_its_message) {
  const std::vector<std::byte> good = sample_bytes(3);
  EXPECT_EQ(message_of(good), "");
  auto flipped = [&](size_t at) {
    std::vector<std::byte> bytes = good;
    bytes[at] ^= std::byte{1};
    return message_of(bytes);
  };
  uint64_t header = 0;
  for (int i = 0; i < 8; ++i) header |= static_cast<uint64_t>(good[i]) << (8 * i);
  EXPECT_NE(flipped(7).find("no legal length"), std::string::npos) << flipped(7);
  EXPECT_NE(flipped(1).find("FILE: header: "), std::string::npos) << flipped(1);
  EXPECT_NE(flipped(2).find("truncated: the header alone has"), std::string::npos) << flipped(2);
  EXPECT_NE(flipped(8).find("not an executable of poptorch"), std::string::npos) << flipped(8);
  EXPECT_NE(flipped(8 + header - 1).find("header"), std::string::npos) << flipped(8 + header - 1);
  EXPECT_NE(flipped(good.size() - 1).find("header: its checksum does not fit the seal"), std::string::npos);
  Container container = Container::parse(good, "FILE");
  const std::byte* begin = nullptr;
  for (const auto& [name, blob] : container.blobs())
    if (begin == nullptr || blob.bytes.data() < begin) begin = blob.bytes.data();
  for (const auto& [name, blob] : container.blobs()) {
    if (blob.bytes.empty()) continue;
    size_t at = 8 + header + static_cast<size_t>(blob.bytes.data() - begin);
    EXPECT_EQ(flipped(at),
              "corrupt file [IPU-E501]: FILE: tensor '" + name + "': its bytes do not fit their checksum.");
  }
}

TEST(ExecutableFile, two_thousand_random_flips_are_all_found) {
  const std::vector<std::byte> good = sample_bytes(5);
  std::mt19937_64 random(20261121);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes = good;
    size_t at = random() % bytes.size();
    bytes[at] ^= static_cast<std::byte>(1 + random() % 255);
    ASSERT_NE(message_of(bytes), "") << "byte " << at;
  }
}

TEST(ExecutableFile, every_truncation_and_every_surplus_is_found) {
  const std::vector<std::byte> good = sample_bytes(5);
  std::mt19937_64 random(4);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::byte> bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(random() % good.size()));
    ASSERT_NE(message_of(bytes), "") << bytes.size();
  }
  for (size_t size : {size_t{0}, size_t{1}, size_t{25}, good.size() - 1, good.size() - 16})
    ASSERT_NE(message_of({good.begin(), good.begin() + static_cast<ptrdiff_t>(size)}), "") << size;
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_EQ(message_of(longer), "corrupt file [IPU-E501]: FILE: 1 bytes too many at the end.");
}

TEST(ExecutableFile, another_version_of_the_container_is_refused) {
  std::vector<std::byte> bytes = sample_bytes(3);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  size_t at = text.find("\"format_version\":\"8\"");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 18] = std::byte{'1'};
  uint64_t header = 0;
  for (int i = 0; i < 8; ++i) header |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  // Seal it anew by hand: the digest of all before the data is the last tensor.
  auto digest = digest_of(std::span<const std::byte>(bytes).first(8 + header));
  std::copy(digest.begin(), digest.end(), bytes.end() - 16);
  EXPECT_EQ(message_of(bytes),
            "file version [IPU-E502]: FILE has container version 1; this version of poptorch reads version "
            "8.\n  try:      compile and save again with this version.");
}

// What checksums cannot find: a sealed file that says something impossible.
TEST(ExecutableFile, impossible_values_are_named) {
  const std::string corrupt = "corrupt file [IPU-E501]: FILE: ";
  EXPECT_EQ(with_section("program", "\"storage\":\"variable\"", "\"storage\":\"moon\""),
            corrupt + "program.ipus[0].buffers[2].storage 'moon' is unknown.");
  EXPECT_EQ(with_section("program", "\"variables\":[{", "\"variables\":[{\"colour\":1,"),
            corrupt + "program.variables[0] has the unknown field 'colour'.");
  EXPECT_EQ(with_section("program", "\"arena_bytes\":", "\"arena_bytes\":99999999999999999999,\"x\":"),
            corrupt + "program.ipus[0].arena_bytes is not an integer.");
  EXPECT_EQ(with_section("program", "\"shape\":[4,6]", "\"shape\":[4,-6]"),
            corrupt + "program.ipus[0].instructions[0].results[0].spec has an extent out of range.");
  EXPECT_EQ(with_section("signature", "\"stream\":2", "\"stream\":77"),
            corrupt + "signature: output 0 names a stream that is not there.");
  EXPECT_EQ(with_section("signature", "\"shape\":[4,6]", "\"shape\":[4,7]"),
            corrupt + "signature: input 0 has another size than its stream.");
  EXPECT_NE(with_section("program", "\"kernel\":\"", "\"kernel\":\"no_such_"), "");
  EXPECT_NE(with_section("program", "[", std::string(100'000, '[')).find("nested deeper"), std::string::npos);
}

TEST(ExecutableFile, messages_quote_no_raw_bytes) {
  std::vector<std::byte> bytes = sample_bytes(3);
  for (size_t at = 8; at < 600; ++at) {
    for (unsigned char byte : {0xff, 0x1b, 0x80}) {
      std::vector<std::byte> bad = bytes;
      bad[at] = static_cast<std::byte>(byte);
      const std::string message = message_of(bad);
      ASSERT_NE(message, "");
      ASSERT_EQ(message, printable(message)) << "byte " << at;
    }
  }
  const Container container = Container::parse(bytes, "FILE");
  EXPECT_EQ(message_of(resealed(container, "ir", "graph \xff")),
            "corrupt file [IPU-E501]: FILE: ir: not a text in UTF-8.");
  const std::string long_name(100'000, 'n');
  const std::string message =
      message_of(resealed(container, "program", "{\"" + long_name + "\":1,\"ipus\":[]}"));
  EXPECT_NE(message.find("unknown field 'nnn"), std::string::npos);
  EXPECT_LT(message.size(), 1200u);
}

TEST(ExecutableFile, a_variable_of_another_size_on_the_host_is_refused) {
  const Container container = Container::parse(sample_bytes(3), "FILE");
  nlohmann::json json = nlohmann::json::parse(container.section("program"));
  json["variables"].push_back(
      {{"name", "w"}, {"spec", {{"dtype", "f32"}, {"shape", {2, 3}}}}, {"shape", {4000}}});
  EXPECT_EQ(
      message_of(resealed(container, "program", json.dump())),
      "corrupt file [IPU-E501]: FILE: program: invalid program [IPU-E411]: variable w: the host's [4000] is "
      "not what is stored, [2,3] in layout plain.");
}

TEST(ExecutableFile, depth_is_counted_outside_of_texts) {
  EXPECT_NE(with_section("executable", "{", "{\"x\":" + std::string(40, '[')).find("nested deeper than 24"),
            std::string::npos);
  EXPECT_NE(
      with_section("executable", "{", "{\"" + std::string(40, '[') + "\\\"[\":1,").find("unknown field"),
      std::string::npos);
}

TEST(ExecutableFile, long_lists_are_read_in_linear_time) {
  constexpr size_t kCount = 1'000'000;
  const HangLimit limit(300);
  std::string text = "[";
  for (size_t i = 0; i < kCount; ++i) text += "[],";
  text.back() = ']';
  EXPECT_EQ(parse_json(text, 8).size(), kCount);
}

TEST(ExecutableFile, what_is_no_regular_file_is_not_waited_for) {
  const std::string pipe = "/tmp/ipu_pipe_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), std::string("/tmp")}) {
    try {
      Container::read(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "cannot read file [IPU-E504]: " + path + ": not a regular file.");
    }
  }
  ::unlink(pipe.c_str());
}

TEST(ExecutableFile, writing_replaces_a_file_at_once_and_names_what_the_system_says) {
  namespace fs = std::filesystem;
  fs::path folder = fs::temp_directory_path() / ("ipu_file_test_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::string path = (folder / "e.poptorch").string();
  Executable executable = sample_executable(2);
  for (int i = 0; i < 2; ++i) {
    ContainerWriter writer;
    add_executable(writer, executable, kNoSignature);
    writer.write(path);
  }
  EXPECT_EQ(Container::read(path).section("ir"), executable.ir_text);
  EXPECT_EQ(Container::read_metadata(path).at("format"), "poptorch-executable");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  auto error_of = [](auto act) {
    try {
      act();
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_EQ(error_of([&] { Container::read((folder / "none").string()); }),
            "cannot read file [IPU-E504]: " + (folder / "none").string() + ": No such file or directory.");
  EXPECT_EQ(error_of([&] { Container::read(folder.string()); }),
            "cannot read file [IPU-E504]: " + folder.string() + ": not a regular file.");
  ContainerWriter writer;
  EXPECT_NE(error_of([&] { writer.write((folder / "no" / "x").string()); }).find("No such file"),
            std::string::npos);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace ipu::executable
