// Hostile text: random bytes, mutations of real modules, extremes. The parser gives a module or an
// Error(kParse); what it accepts prints, parses again to the same text, and can be verified. Bounded and
// seeded: IPU_FUZZ_ROUNDS, IPU_FUZZ_SECONDS (at least), IPU_FUZZ_SEED.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "ir/text/text.h"
#include "ir/verify/verifier.h"
#include "support/error.h"
#include "tests/ir/random_module.h"

namespace ipu::ir {
namespace {

uint64_t setting(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

void feed(const std::string& text) {
  std::unique_ptr<Module> module;
  try {
    module = parse(text, "fuzz");
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kParse) << error.message() << "\n" << text;
    return;
  }
  std::string printed = print(*module);
  ASSERT_EQ(print(*parse(printed)), printed) << text;
  find_violations(*module, Form::kAuthored);
  find_violations(*module, Form::kFunctional);
}

TEST(ParserFuzz, mutated_modules_give_a_module_or_a_parse_error) {
  uint64_t seed = setting("IPU_FUZZ_SEED", 20240611), rounds = setting("IPU_FUZZ_ROUNDS", 3000);
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  static const std::string kPieces[] = {
      "{",   "}",    "(",         ")",           "|",         "=",
      ":",   "%x",   "@x",        "#0",          "->",        "dense<f32[2]: [1, 2]>",
      "\"",  "loc(", "after(#0)", "none",        "return",    "graph @g() -> () {",
      "[",   "]",    ",",         "-",           "0x",        "1e9",
      "inf", "//",   "\n",        "stages=[@x]", "callee=@x", "carried=1"};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(setting("IPU_FUZZ_SECONDS", 0));
  for (uint64_t round = 0; round < rounds || std::chrono::steady_clock::now() < end; ++round) {
    std::string text = print(*RandomModule(random() % 500).make());
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0 && !text.empty(); --edits) {
      size_t at = random() % text.size();
      switch (random() % 5) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        case 2:
          text.insert(at, kPieces[random() % std::size(kPieces)]);
          break;
        case 3:
          text.insert(at, text.substr(random() % text.size(), random() % 60));
          break;
        default:
          text.resize(at);
          break;
      }
    }
    SCOPED_TRACE("IPU_FUZZ_SEED=" + std::to_string(seed) + " round " + std::to_string(round));
    feed(text);
    if (HasFatalFailure()) return;
  }
}

TEST(ParserFuzz, finding_unsharded_shapes_without_a_size_are_violations) {
  for (const char* shape : {"[58574084,4150679304,2619295817,30198,2]", "[-3]", "[9223372036854775807]"}) {
    SCOPED_TRACE(shape);
    auto module =
        parse("module {}\nvariable @w: f32[4] {meta_shape=" + std::string(shape) + ", shard_over=2}\n");
    const std::vector<Violation> found = find_violations(*module, Form::kFunctional);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].what.find("has no unsharded size"), std::string::npos) << found[0].what;
  }
}

TEST(ParserFuzz, random_bytes_give_a_parse_error) {
  std::mt19937_64 random(setting("IPU_FUZZ_SEED", 7));
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 80, '\0');
    for (char& c : text) c = static_cast<char>(random());
    feed(text);
    if (HasFatalFailure()) return;
  }
}

// Deep or long text must neither exhaust the stack nor take quadratic time: each of these is about a
// megabyte.
TEST(ParserFuzz, extremes_of_one_kind_of_token) {
  for (const std::string piece : {"(", "[", "{", "graph @g(", "-", "\"a\"", "%a ", "@a ", "#", "|", "dense<",
                                  "// x\n", "0x", "1.0", ",", "\\"}) {
    std::string text;
    while (text.size() < 1'000'000) text += piece;
    feed(text);
    feed("graph @f() -> () { op() {a=" + text);
    if (HasFatalFailure()) return;
  }
}

TEST(ParserFuzz, long_lists_and_many_rows_are_read) {
  std::string integers = "module {a=[1", rows, ops = "graph @f() -> () {\n",
              calls = "graph @g0() -> () { return }\n";
  for (int i = 0; i < 50'000; ++i) {
    integers += ",1";
    rows += "remote_buffer @b" + std::to_string(i) + ": f32[2]\n";
    ops += "#" + std::to_string(i) + ": op()" + (i ? " after(#" + std::to_string(i - 1) + ")\n" : "\n");
  }
  for (int i = 1; i < 20'000; ++i)
    calls += "graph @g" + std::to_string(i) + "() -> () { call() {callee=@g" + std::to_string(i - 1) +
             "} return }\n";
  EXPECT_EQ(std::get<std::vector<int64_t>>(*parse(integers + "]}")->attributes.find("a")).size(), 50'001u);
  EXPECT_EQ(parse(rows)->remote_buffers().size(), 50'000u);
  EXPECT_TRUE(find_violations(*parse(ops + "return }"), Form::kAuthored).empty());
  EXPECT_TRUE(
      find_violations(*parse(calls), Form::kFunctional).empty());  // no recursion over 20,000 nested calls
}

TEST(ParserFuzz, a_list_of_fields_is_bounded) {
  std::string text = "module {";
  for (int i = 0; i < 5000; ++i) text += "a" + std::to_string(i) + "=1,";
  try {
    parse(text + "b=1}", "t.ir");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message().substr(0, error.message().find('\n')),
              "parse error [IPU-E203]: t.ir:1:31667: a list has at most 4096 fields.");
  }
}

}  // namespace
}  // namespace ipu::ir
