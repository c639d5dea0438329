// Every error of the parser, the whole message each.
#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "support/error.h"

namespace ipu::ir {
namespace {

std::string message_of(const std::string& text) {
  try {
    parse(text, "t.ir");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kParse);
    return error.message();
  }
  return "no error";
}

// The same without the excerpt.
std::string first_line(const std::string& text) {
  std::string message = message_of(text);
  return message.substr(0, message.find('\n'));
}

std::string in_graph(const std::string& body) {
  return "graph @f(%a: f32[2]) -> () {\n" + body + "\nreturn }";
}

TEST(ParserMisuse, the_message_shows_place_line_and_caret) {
  EXPECT_EQ(message_of("graph @f(%a: f32[2]) -> f32[2] {\n  %b = neg(%c) : f32[2]\n  return %b\n}\n"),
            "parse error [IPU-E203]: t.ir:2:12: value '%c' is not defined before this line in @f.\n"
            "    %b = neg(%c) : f32[2]\n"
            "             ^");
}

TEST(ParserMisuse, the_end_of_the_text_has_a_place_too) {
  EXPECT_EQ(message_of("graph @f("),
            "parse error [IPU-E203]: t.ir:1:10: expected an input such as '%x: f32[2]' and found the end of "
            "the text.\n"
            "  graph @f(\n"
            "           ^");
}

struct Case {
  const char* text;
  const char* message;  // after "parse error [IPU-E203]: t.ir:"
};

class ParserMisuseOfModules : public testing::TestWithParam<Case> {};
TEST_P(ParserMisuseOfModules, is_named) {
  EXPECT_EQ(first_line(GetParam().text), std::string("parse error [IPU-E203]: t.ir:") + GetParam().message);
}
INSTANTIATE_TEST_SUITE_P(
    All, ParserMisuseOfModules,
    testing::Values(
        Case{"grph @f",
             "1:1: expected 'graph', 'module', 'variable', 'stream', 'ring', 'remote_buffer' or 'entry' and "
             "found 'grph'."},
        Case{"module {a=1} module {b=1}", "1:14: the module's attributes are given twice."},
        Case{"entry main = f", "1:14: expected a graph such as '@main' and found 'f'."},
        Case{"entry main = @f entry main = @g", "1:23: entry point 'main' is defined twice."},
        Case{"variable w: f32[2]", "1:10: expected a name such as '@x' and found 'w'."},
        Case{"variable @\"\": f32[2]", "1:10: a name is not empty."},
        Case{"variable @w: f32[2] variable @w: f32[2]", "1:30: variable '@w' is defined twice."},
        Case{"stream @w: f32[2] stream @w: f32[2]", "1:26: stream '@w' is defined twice."},
        Case{"ring @w: f32[2] ring @w: f32[2]", "1:22: ring '@w' is defined twice."},
        Case{"remote_buffer @w: f32[2] remote_buffer @w: f32[2]",
             "1:40: remote_buffer '@w' is defined twice."},
        Case{"variable @w: f33[2]", "1:14: unknown dtype 'f33'."},
        Case{"variable @w: f32", "1:17: expected '[' and found the end of the text."},
        Case{"variable @w: f32[-1]", "1:18: an extent of a shape is not negative."},
        Case{"variable @w: f32[4294967296,4294967296]", "1:17: the size of this shape does not fit 64 bits."},
        Case{"variable @w: f32[0,4294967296,4294967296]",
             "1:17: the size of this shape does not fit 64 bits."},
        Case{"variable @w: f32[99999999999999999999]",
             "1:18: '99999999999999999999' is out of range for a 64-bit integer."},
        Case{"variable @w: f32[2]:nchw", "1:21: unknown layout 'nchw'."},
        Case{"variable @w: f32[2]:Ab64a", "1:21: layout 'Ab64a' is of 2 dimensions, the type has 1."},
        Case{"variable @w: f32[2,3,4]:acdb", "1:25: layout 'acdb' is of 4 dimensions, the type has 3."},
        Case{"variable @w: f32[2] {size=1}",
             "1:22: unknown variable field 'size'; known are ipu, role, group_stride, group_size, "
             "group_assignment, retrieval, meta_shape, shard_over, remote_buffer, remote_entry, initial, "
             "adopted."},
        Case{"variable @w: f32[2] {ipu=-1}",
             "1:22: variable field 'ipu' is an integer from 0 to 2147483647."},
        Case{"variable @w: f32[2] {ipu=\"one\"}", "1:22: variable field 'ipu' is an integer."},
        Case{"variable @w: f32[2] {adopted=1}", "1:22: variable field 'adopted' is true or false."},
        Case{"variable @w: f32[2] {role=3}", "1:22: variable field 'role' is a string."},
        Case{"variable @w: f32[2] {initial=3}", "1:22: variable field 'initial' is dense<...>."},
        Case{"variable @w: f32[2] {meta_shape=3}",
             "1:22: variable field 'meta_shape' is a list of integers."},
        Case{"variable @w: f32[2] {remote_buffer=\"b\"}",
             "1:22: variable field 'remote_buffer' is a symbol such as @x."},
        Case{"variable @w: f32[2] {retrieval=\"some\"}",
             "1:22: variable field 'retrieval' is \"one_per_group\" or \"all_replicas\"."},
        Case{"stream @s: f32[2] {mode=\"last\"}",
             "1:20: stream field 'mode' is \"final\", \"every_n\", \"all\" or \"sum\"."},
        Case{"stream @s: f32[2] {host_dtype=64}", "1:20: stream field 'host_dtype' is a dtype."},
        Case{"module {a=1, a=2}", "1:14: attribute 'a' is given twice."},
        Case{"module {\"\"=1}", "1:9: the name of a field is not empty."},
        Case{"module {1=1}", "1:9: expected the name of a field and found '1'."},
        Case{"module {a=b}", "1:11: unknown word 'b'; strings are in quotes."},
        Case{"module {a=}", "1:11: expected the value of an attribute and found '}'."},
        Case{"module {a=[1,\"b\"]}", "1:14: the elements of a list are of one kind."},
        Case{"module {a=[true]}", "1:12: expected a number, a string or a symbol and found 'true'."},
        Case{"module {a=reals[1.0]}", "1:21: expected an empty list after 'reals' and found '}'."},
        Case{"module {a=1e999}", "1:11: '1e999' is out of range for a real number."},
        Case{"module {a=0x12}", "1:11: a bit pattern here has 16 hexadecimal digits."},
        Case{"module {a=\"\\q\"}", "1:11: unknown escape '\\q' in a string."},
        Case{"module {a=\"\\x1\"}", "1:11: \\x in a string needs two hexadecimal digits."},
        Case{"module {a=\"b}\n", "1:11: this string is not closed on its line."},
        Case{"module {a=1 ; b=2}", "1:13: unexpected character ';'."},
        Case{"module {a=@ }", "1:11: expected a name after '@'."}));

class ParserMisuseOfConstants : public testing::TestWithParam<Case> {};
TEST_P(ParserMisuseOfConstants, is_named) {
  EXPECT_EQ(first_line(std::string("module {a=dense<") + GetParam().text + ">}"),
            std::string("parse error [IPU-E203]: t.ir:") + GetParam().message);
}
INSTANTIATE_TEST_SUITE_P(
    All, ParserMisuseOfConstants,
    testing::Values(
        Case{"f31[2]: 1.0", "1:17: unknown dtype 'f31'."},
        Case{"f32[2]: [1.0]", "1:29: this constant has 1 elements, its shape 2."},
        Case{"f32[1]: [1.0, 2.0]", "1:31: this constant has more than the 1 elements of its shape."},
        Case{"f32[5000]: 1.0", "1:28: one element stands for at most 4096 equal ones, not 5000."},
        Case{"f32[1]: [1e50]", "1:26: '1e50' is out of range for f32."},
        Case{"f16[1]: [70000.0]", "1:26: '70000.0' is out of range for f16."},
        Case{"i8[1]: [200]", "1:25: '200' is out of range for i8."},
        Case{"u8[1]: [-1]", "1:25: '-1' is out of range for u8."},
        Case{"i32[1]: [1.5]", "1:26: an element of i32 is an integer."},
        Case{"f32[1]: [true]", "1:26: an element of f32 is a number."},
        Case{"bool[1]: [1]", "1:27: an element of bool is true or false."},
        Case{"f8_143[1]: [1.0]", "1:29: an element of f8_143 is a bit pattern such as 0x3c."},
        Case{"f16[1]: [0x123]", "1:26: a bit pattern here has 4 hexadecimal digits."},
        Case{"f32[1]: \"0000\"", "1:25: this constant has 4 bytes, the text 4 hexadecimal digits."},
        Case{"f32[1]: \"0000000g\"", "1:25: bytes of a constant are written with the digits 0-9 and a-f."},
        Case{"f32[1]: #123",
             "1:25: this constant was printed as a hash only; print it with all elements to read it back."}));

class ParserMisuseOfOps : public testing::TestWithParam<Case> {};
TEST_P(ParserMisuseOfOps, is_named) {
  EXPECT_EQ(first_line(in_graph(GetParam().text)),
            std::string("parse error [IPU-E203]: t.ir:") + GetParam().message);
}
INSTANTIATE_TEST_SUITE_P(
    All, ParserMisuseOfOps,
    testing::Values(Case{"}", "2:1: expected an op or 'return' and found '}'."},
                    Case{"%a = neg(%a) : f32[2]", "2:1: value '%a' is defined twice."},
                    Case{"%b, %b = neg(%a) : f32[2], f32[2]", "2:5: value '%b' is defined twice."},
                    Case{"%\"odd name\" = neg(%a) : f32[2]",
                         "2:1: a value's name has only letters, digits and _ . $ / -."},
                    Case{"%\"\" = neg(%a) : f32[2]", "2:1: a name is not empty."},
                    Case{"%b = neg(%a)", "2:6: 'neg' has 1 result names and 0 result types."},
                    Case{"neg(%a) : f32[2]", "2:1: 'neg' has 0 result names and 1 result types."},
                    Case{"\"\"(%a)", "2:1: the name of an op is not empty."},
                    Case{"%b = 7(%a)", "2:6: expected an op such as 'add(%a, %b)' and found '7'."},
                    Case{"neg(a)", "2:5: expected a value such as '%x' and found 'a'."},
                    Case{"neg(%a) {| stge=1}",
                         "2:12: unknown setting field 'stge'; known are block, ipu, stage, phase, tile_set, "
                         "exchange, context, recompute, no_grad, priority, available_memory, outline.NAME."},
                    Case{"neg(%a) {| available_memory=1.5}",
                         "2:12: setting field 'available_memory' is a number from 0 to 1."},
                    Case{"neg(%a) {| context=\"sideways\"}",
                         "2:12: setting field 'context' is \"forward\", \"backward\", \"accumulate_outer\" "
                         "or \"weight_transfer\"."},
                    Case{"neg(%a) loc(3)", "2:13: expected a file name in quotes and found '3'."},
                    Case{"neg(%a) loc(\"m.py\":99999999999)", "2:20: this number does not fit 32 bits."},
                    Case{"neg(%a) origin(\"aten\")", "2:22: expected ',' and found ')'."},
                    Case{"neg(%a) after(#3)", "2:15: no op of @f has the label #3."},
                    Case{"#0: neg(%a) after(#0)", "2:19: op #0 is ordered after itself."},
                    Case{"neg(%a) after(%a)", "2:15: expected a label such as '#0' and found '%a'."},
                    Case{"#1: neg(%a)\n#1: neg(%a)", "3:1: label #1 is given twice."}));

TEST(ParserMisuse, graphs_and_their_headers) {
  EXPECT_EQ(first_line("graph @f() -> () { return } graph @f() -> () { return }"),
            "parse error [IPU-E203]: t.ir:1:35: graph '@f' is defined twice.");
  EXPECT_EQ(first_line("graph @f(%a: f32[2], %a: f32[2]) -> () { return }"),
            "parse error [IPU-E203]: t.ir:1:22: value '%a' is defined twice.");
  EXPECT_EQ(first_line("graph @f(%a: f32[2] {by_ref}) -> () { return }"),
            "parse error [IPU-E203]: t.ir:1:22: unknown input field 'by_ref'; known are by_reference, ipu.");
  EXPECT_EQ(first_line("graph @f(%a: f32[2]) -> f32[3] { return %a }"),
            "parse error [IPU-E203]: t.ir:1:41: the header says output 0 is f32[3], and %a is f32[2].");
  EXPECT_EQ(first_line("graph @f(%a: f32[2]) -> () { return %a }"),
            "parse error [IPU-E203]: t.ir:1:30: the header names 0 outputs, and 1 are returned.");
}

TEST(ParserMisuse, a_value_of_another_graph_is_unknown) {
  EXPECT_EQ(first_line("graph @f(%a: f32[2]) -> () { return }\ngraph @g() -> () { neg(%a) return }"),
            "parse error [IPU-E203]: t.ir:2:24: value '%a' is not defined before this line in @g.");
}

}  // namespace
}  // namespace ipu::ir
