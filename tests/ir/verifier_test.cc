#include "ir/verify/verifier.h"

#include <gtest/gtest.h>

#include "ir/structure.h"
#include "ir/text/text.h"
#include "support/error.h"

namespace ipu::ir {
namespace {

std::string all(const Module& module, Form form = Form::kFunctional) {
  std::string text;
  for (const Violation& v : find_violations(module, form))
    text += (v.graph.empty() ? "" : "@" + v.graph + ": ") + v.what + "\n";
  return text;
}
std::string all(const std::string& text, Form form = Form::kFunctional) { return all(*parse(text), form); }

// A graph @f with inputs %a: f32[2], %c: bool[], %i: i32[] and this body; @id and the tables beside it.
std::string in_graph(const std::string& body,
                     const std::string& inputs = "%a: f32[2], %c: bool[], %i: i32[]") {
  return R"(variable @w: f32[2]
stream @in: f32[2]
stream @out: f32[2] {direction="device_to_host"}
ring @r: f32[2]
remote_buffer @b: f32[2] {entries=3}
graph @id(%x: f32[2]) -> f32[2] { return %x }
graph @body(%k: i32[], %x: f32[2]) -> f32[2] { return %x }
graph @go(%k: i32[], %x: f32[2]) -> (bool[], f32[2]) { %t = constant() {value=dense<bool[]: true>} : bool[] return %t, %x }
graph @f()" +
         inputs + ") -> () {\n" + body + "\nreturn }";
}

TEST(Verifier, a_legal_module_has_no_violations) {
  EXPECT_EQ(all(R"(
variable @w: f32[2] {initial=dense<f32[2]: 0.0>, remote_buffer=@b, remote_entry=2}
stream @in: f32[2]
stream @out: f32[2] {direction="device_to_host"}
ring @r: f32[2] {capacity=2}
remote_buffer @b: f32[2] {entries=3}
entry main = @main
graph @main() -> () {
  %w = variable.read() {variable=@w} : f32[2]
  %x = host_load() {stream=@in} : f32[2]
  %y = call(%x) {callee=@id} : f32[2]
  %z = loop(%y, %w) {body=@body, carried=1, trip=3} : f32[2]
  %u = loop(%y, %w) {body=@go, carried=1, trip=3, while} : f32[2]
  %c = constant() {value=dense<bool[]: true>} : bool[]
  %v = if(%c, %z) {else=@id, then=@id} : f32[2]
  ring.push(%v) {ring=@r}
  %p = ring.pop() {ring=@r} : f32[2]
  %q = ipu_copy(%p) {from=0, to=1} : f32[2]
  remote.store(%q) {buffer=@b, entry=2}
  %i = constant() {value=dense<i32[]: 1>} : i32[]
  %l = remote.load(%i) {buffer=@b} : f32[2]
  %s = rng.context() {path="main"} : u32[2]
  %t = pipeline(%l, %w) {carried=1, micro_batches=4, stages=[@body]} : f32[2]
  variable.assign(%t) {variable=@w}
  host_store(%t) {stream=@out}
  %o = "user::op"(%t, none) : f32[7]
  return
}
graph @id(%x: f32[2]) -> f32[2] { return %x }
graph @body(%k: i32[], %x: f32[2], %w: f32[2]) -> f32[2] { return %w }
graph @go(%k: i32[], %x: f32[2], %w: f32[2]) -> (bool[], f32[2]) { %t = constant() {value=dense<bool[]: true>} : bool[] return %t, %x }
)"),
            "");
}

TEST(Verifier, bad_entries_of_the_tables_of_a_module_are_named) {
  EXPECT_EQ(all("remote_buffer @b: f32[2] {entries=0}"), "remote buffer @b has 0 entries\n");
  EXPECT_EQ(all("ring @r: f32[2] {capacity=0}"), "ring @r has capacity 0\n");
  EXPECT_EQ(all("stream @s: f32[2] {period=0}"), "stream @s has period 0\n");
  EXPECT_EQ(all("variable @w: f32[2] {initial=dense<f32[3]: 0.0>}"),
            "variable @w is f32[2], its initial value f32[3]\n");
  EXPECT_EQ(all("variable @w: f32[2] {initial=dense<f32[]: 0.0>}"), "");  // one number for every element
  EXPECT_EQ(all("variable @w: f32[2] {shard_over=0}"), "variable @w is sharded over 0 replicas\n");
  EXPECT_EQ(all("variable @w: f32[2] {group_stride=0}"),
            "variable @w has a grouping of stride 0 and size 0\n");
  EXPECT_EQ(all("variable @w: f32[2] {remote_buffer=@b}"),
            "variable @w lives in remote buffer @b, which does not exist\n");
  EXPECT_EQ(
      all("remote_buffer @b: f32[3] variable @w: f32[2] {remote_buffer=@b, remote_entry=1}"),
      "variable @w is f32[2], an entry of @b is f32[3]\nvariable @w lives in entry 1 of @b, which has 1\n");
  EXPECT_EQ(all("module {replicas=4} variable @w: f32[2] {group_size=3}"),
            "variable @w: its grouping of size 3 and stride 1 does not divide 4 replicas\n");
  EXPECT_EQ(all("module {replicas=4} variable @w: f32[2] {group_size=2, initial=dense<f32[2,2]: 0.0>}"), "");
  EXPECT_EQ(all("module {replicas=4} variable @w: f32[2] {group_size=2, initial=dense<f32[3,2]: 0.0>}"),
            "variable @w is f32[2], its initial value f32[3,2]\n");
  for (const char* initial : {"f32[5]", "f32[2,5]"})  // for all groups, or for each
    EXPECT_EQ(all("module {replicas=4} variable @w: f32[3] {group_size=2, meta_shape=[5], shard_over=2, "
                  "initial=dense<" +
                  std::string(initial) + ": 0.0>}"),
              "");
  EXPECT_EQ(all("module {replicas=4} variable @w: f32[3] {meta_shape=[5], shard_over=4}"),
            "variable @w is f32[3], a shard of f32[5] over 4 replicas is f32[2]\n");
  EXPECT_EQ(all("module {replicas=4} variable @w: f32[2] {meta_shape=[5], shard_over=3}"),
            "variable @w is sharded over 3 replicas of a group of 4\n");
  EXPECT_EQ(all("module {processes=3, replicas=4}"),
            "module attribute 'processes' is an integer of at least 1 that divides the replicas\n");
  EXPECT_EQ(all("entry main = @f"), "entry point 'main' is @f, which does not exist\n");
  EXPECT_EQ(all("entry main = @f graph @f(%a: f32[]) -> () { return }"),
            "entry graph @f has inputs; it is run without arguments\n");
}

struct Case {
  const char* body;
  const char* what;
};
class VerifierOfOps : public testing::TestWithParam<Case> {};
TEST_P(VerifierOfOps, names_the_violation) {
  EXPECT_EQ(all(in_graph(GetParam().body)), "@f: " + std::string(GetParam().what) + "\n");
}
INSTANTIATE_TEST_SUITE_P(
    All, VerifierOfOps,
    testing::Values(
        Case{"%x = call(%a) {callee=@none} : f32[2]", "graph @none does not exist"},
        Case{"%x = call(%a) : f32[2]", "attribute 'callee' is a symbol such as @x"},
        Case{"%x = call(%a, %a) {callee=@id} : f32[2]", "passes 2 values, and @id takes 1"},
        Case{"%x = call(%i) {callee=@id} : f32[2]", "operand 0 is i32[], and input 0 of @id is f32[2]"},
        Case{"%x = call(%a) {callee=@id} : f32[3]", "result 0 is f32[3], and output 0 of @id is f32[2]"},
        Case{"call(%a) {callee=@id}", "has 0 results, and @id returns 1"},
        Case{"%x = call(none) {callee=@id} : f32[2]", "operand 0 is absent"},
        Case{"%x = loop(%a) {body=@body, carried=1} : f32[2]",
             "attribute 'trip' is an integer of at least 0"},
        Case{"%x = loop(%a) {body=@body, carried=1, trip=-1} : f32[2]",
             "attribute 'trip' is an integer of at least 0"},
        Case{"%x = loop(%a) {body=@body, carried=2, trip=1} : f32[2]", "carries 2 values and has 1 operands"},
        Case{"%x = loop(%a, %a) {body=@body, carried=1, trip=1} : f32[2]",
             "passes 2 values, and @body takes 1"},
        Case{"loop(%a) {body=@body, carried=0, trip=1}", "@body has 1 outputs; 0 are needed"},
        Case{"%x = loop(%a) {body=@body, carried=1, trip=1, while} : f32[2]",
             "with 'while' the first output of @body is bool[]"},
        Case{"%x = loop(%a) {body=@go, carried=1, trip=1} : f32[2]", "@go has 2 outputs; 1 are needed"},
        Case{"%x = loop(%a) {body=@body, carried=1, trip=1, while=3} : f32[2]",
             "attribute 'while' is true or false"},
        Case{"%x = loop(%a) {body=@body, carried=1, expected=1, trip=1} : f32[2]",
             "attribute 'expected' is at most 'trip', of a loop with 'while'"},
        Case{"%x = loop(%a) {body=@go, carried=1, expected=2, trip=1, while} : f32[2]",
             "attribute 'expected' is at most 'trip', of a loop with 'while'"},
        Case{"%x = loop(%a) {body=@go, carried=1, expected=-1, trip=1, while} : f32[2]",
             "attribute 'expected' is an integer of at least 0"},
        Case{"loop(%a) {body=@body, carried=1, trip=1}", "has 0 results and 1 carried values"},
        Case{"%x = if(%a, %a) {else=@id, then=@id} : f32[2]", "operand 0 is the condition, bool[]"},
        Case{"%x = if(%c, %a) {then=@id} : f32[2]", "attribute 'else' is a symbol such as @x"},
        Case{"%x = if(%c, %a) {else=@id, then=@body} : f32[2]", "passes 1 values, and @body takes 2"},
        Case{"%x = pipeline(%a) {carried=1, micro_batches=2} : f32[2]",
             "attribute 'stages' is a list of graphs"},
        Case{"%x = pipeline(%a) {carried=1, micro_batches=0, stages=[@body]} : f32[2]",
             "attribute 'micro_batches' is an integer of at least 1"},
        Case{"%x = pipeline(%a) {carried=1, micro_batches=2, stages=[@nobody]} : f32[2]",
             "stage @nobody does not exist"},
        Case{"%x = variable.read() {variable=@w} : f32[2]",
             "only entry graphs touch variables; pass the value of @w as an input"},
        Case{"%x = host_load() {stream=@nothing} : f32[2]", "stream @nothing does not exist"},
        Case{"%x = host_load() {stream=@out} : f32[2]", "stream @out goes from device to host"},
        Case{"host_store(%a) {stream=@in}", "stream @in goes from host to device"},
        Case{"%x = host_load() {stream=@in} : f32[3]", "stream @in is f32[2], the value f32[3]"},
        Case{"host_store() {stream=@out}", "takes 1 operands and gives 0 results, not 0 and 0"},
        Case{"ring.push(%i) {ring=@r}", "ring @r is f32[2], the value i32[]"},
        Case{"ring.push(%a) {ring=@q}", "ring @q does not exist"},
        Case{"%x = ipu_copy(%a) {from=0} : f32[2]", "attribute 'to' is an integer of at least 0"},
        Case{"%x = ipu_copy(%a) {from=0, to=1} : f32[3]", "turns f32[2] into f32[3]"},
        Case{"%x = remote.load() {buffer=@b, entry=3} : f32[2]", "entry 3 of @b, which has 3"},
        Case{"%x = remote.load() {buffer=@b} : f32[2]", "attribute 'entry' is an integer of at least 0"},
        Case{"%x = remote.load(%a) {buffer=@b} : f32[2]", "the offset is one i32 or u32"},
        Case{"remote.store(%i) {buffer=@b, entry=0}", "an entry of @b is f32[2], the value i32[]"},
        Case{"%x = constant() {value=3} : f32[2]", "attribute 'value' is dense<...>"},
        Case{"%x = constant() {value=\"#3\"} : f32[2]", "attribute 'value' is dense<...>"},
        Case{"%x = constant() {value=dense<f32[2]: 1.0>} : f32[3]", "turns f32[2] into f32[3]"},
        Case{"%x = rng.context() : u32[3]", "the result is u32[2]"},
        Case{"%x = replica_index() : i32[1]", "the result is i32[]"},
        Case{"write(%a, %a)", "writes to a value; the functional form has no writes"},
        Case{"%x = call(%a) {callee=@id, modified=[0]} : f32[2]",
             "modifies its operands; the functional form has no writes"},
        Case{"#0: neg(%a) neg(%a) after(#0)", "has order edges; the functional form has none"}));

class VerifierOfAuthoredOps : public testing::TestWithParam<Case> {};
TEST_P(VerifierOfAuthoredOps, names_the_violation) {
  EXPECT_EQ(all(in_graph(GetParam().body), Form::kAuthored), "@f: " + std::string(GetParam().what) + "\n");
}
INSTANTIATE_TEST_SUITE_P(All, VerifierOfAuthoredOps,
                         testing::Values(Case{"%x = call(%a) {callee=@id, modified=[1]} : f32[2]",
                                              "modified operand 1 does not exist"},
                                         Case{"%x = call(%a) {callee=@id, modified} : f32[2]",
                                              "attribute 'modified' is a list of operand numbers"},
                                         Case{"neg(%a) after(#0) #0: neg(%a)",
                                              "is ordered after an op that is listed later"},
                                         Case{"write(%a, %i)", "the region is f32[2], the source i32[]"},
                                         Case{"write(%a, %i) {sizes=[1], starts=[0]}",
                                              "attribute 'steps' is a list of 1 integers"}));

TEST(Verifier, the_authored_form_may_write_and_order) {
  EXPECT_EQ(all(in_graph("#0: write(%a, %a) write(%a, %a) {sizes=[2], starts=[0], steps=[1]} after(#0)",
                         "%a: f32[2] {by_reference}"),
                Form::kAuthored),
            "");
  EXPECT_EQ(all("graph @f(%a: f32[2] {by_reference}) -> () { return }"),
            "@f: input %a is by reference; the functional form has none\n");
}

TEST(Verifier, stages_take_what_earlier_stages_give) {
  const char* legal = R"(graph @f(%a: f32[2], %w: f32[3]) -> f32[2] {
  %x = pipeline(%a, %w) {carried=1, micro_batches=4, stages=[@s0,@s1,@s2]} : f32[2] return %x }
graph @s0(%k: i32[], %x: f32[2], %w: f32[3]) -> (f32[2], f32[5]) { %t = op() : f32[5] return %x, %t }
graph @s1(%k: i32[], %x: f32[2], %w: f32[3], %t: f32[5]) -> (f32[2], f32[6]) { %u = op() : f32[6] return %x, %u }
graph @s2(%k: i32[], %x: f32[2], %w: f32[3], %t: f32[5], %u: f32[6]) -> f32[2] { return %x })";
  EXPECT_EQ(all(legal), "");
  std::string wrong = legal;
  wrong.replace(wrong.find("%t: f32[5], %u: f32[6]"), 22, "%t: f32[6], %u: f32[5]");
  EXPECT_EQ(
      all(wrong),
      "@f: flow 0 is f32[5], and stage @s2 takes f32[6]\n@f: flow 1 is f32[6], and stage @s2 takes f32[5]\n");
}

TEST(Verifier, graphs_do_not_recurse) {
  EXPECT_EQ(all("graph @f() -> () { call() {callee=@g} return } graph @g() -> () { loop() {body=@h, "
                "carried=0, trip=1} return }"
                "graph @h(%i: i32[]) -> () { call() {callee=@f} return }"),
            "@h: calls @f, which leads back here: graphs do not recurse\n");
  EXPECT_EQ(all("graph @f() -> () { call() {callee=@f} return }"),
            "@f: calls @f, which leads back here: graphs do not recurse\n");
}

TEST(Verifier, an_entry_graph_is_not_called) {
  EXPECT_EQ(all("entry main = @m graph @m() -> () { return } graph @f() -> () { call() {callee=@m} return }"),
            "@f: calls the entry graph @m\n");
}

TEST(Verifier, a_value_is_defined_before_it_is_read) {
  std::unique_ptr<Module> module =
      parse("graph @f(%a: f32[2]) -> () { %x = neg(%a) : f32[2] abs(%x) return }");
  Graph* graph = module->find_graph("f");
  graph->move_before(graph->ops().back().get(), graph->ops().front().get());
  EXPECT_EQ(all(*module), "@f: operand 0, %x, is defined later\n");
}

TEST(Verifier, verify_lists_all_violations_with_their_ops) {
  try {
    verify(*parse("ring @r: f32[2] {capacity=0} graph @f(%a: f32[2]) -> () { call(%a) {callee=@g} "
                  "loc(\"m.py\":3) return }"),
           Form::kFunctional);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidIr);
    EXPECT_EQ(error.message(),
              "invalid IR [IPU-E202]: 2 violations.\n"
              "  ring @r has capacity 0.\n"
              "  @f: graph @g does not exist.\n"
              "    call(%a) {callee=@g} loc(\"m.py\":3)");
  }
}

}  // namespace
}  // namespace ipu::ir
