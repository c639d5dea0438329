// Reports as a whole: their figures agree with each other and with the machine, over random programs.
#include "report/report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/text/text.h"
#include "passes/pass.h"
#include "report/expected_error.h"
#include "support/error.h"
#include "tests/lowering/random_program.h"

namespace ipu::report {
namespace {

using nlohmann::json;

const target::Machine& machine(const char* name) { return *target::find_machine(name); }

Report report_of(const ir::Module& module, const char* on = "pod16") {
  return make_report(module, machine(on), {});
}

// So many random programs; IPU_REPORT_PROGRAMS says more for a long run (test_random_programs.py).
int several(int count) {
  const char* text = std::getenv("IPU_REPORT_PROGRAMS");
  return text == nullptr ? count : static_cast<int>(std::strtol(text, nullptr, 10));
}

// Random programs on up to three IPUs; conditions over several IPUs, which the passes refuse, are left out.
std::vector<std::unique_ptr<ir::Module>> random_programs(int count) {
  std::vector<std::unique_ptr<ir::Module>> programs;
  for (uint64_t seed = 1; programs.size() < static_cast<size_t>(count); ++seed) {
    auto module = testing_random::RandomProgram(seed, 1 + static_cast<int>(seed % 3), seed % 2 == 0).make();
    try {
      passes::run_pipeline(*module, {"fold-constants", "insert-ipu-copies", "dce"}, {},
                           passes::Verify::kEnds);
      programs.push_back(std::move(module));
    } catch (const Error&) {
    }
  }
  return programs;
}

int64_t sum_of(const json& entries, const char* of = "cycles") {
  int64_t sum = 0;
  for (const json& entry : entries) sum += entry[of]["total"].get<int64_t>();
  return sum;
}

TEST(Report, takes_no_less_than_the_longest_operation_and_no_more_than_all) {
  for (const auto& module : random_programs(several(200))) {
    const ProgramTime time = report_of(*module).time;
    double longest = 0, all = 0;
    for (const TimedOp& op : time.ops) {
      longest = std::max(longest, op.once.cycles.total());
      all += op.once.cycles.total() * op.executions;
    }
    ASSERT_GE(time.cycles, longest) << ir::print(*module);
    ASSERT_LE(time.cycles, all) << ir::print(*module);
  }
}

TEST(Report, parts_add_up_to_totals_to_the_cycle) {
  for (const auto& module : random_programs(several(200))) {
    const json report = json::parse(to_json(report_of(*module)));
    const json& time = report["time"];
    const int64_t busy = sum_of(time["ipus"], "busy") + sum_of(time["ipus"], "beside");
    for (const char* table : {"kinds", "lines", "modules", "operations"})
      ASSERT_EQ(sum_of(time[table]), busy) << table << "\n" << ir::print(*module);
    for (const json& ipu : time["ipus"]) {
      const json& of = ipu["busy"];
      ASSERT_EQ(of["total"].get<int64_t>() + ipu["waiting"].get<int64_t>(), time["cycles"].get<int64_t>());
      ASSERT_GE(ipu["waiting"], 0);
      ASSERT_EQ(of["compute"].get<int64_t>() + of["exchange"].get<int64_t>() + of["overhead"].get<int64_t>() +
                    of["links"].get<int64_t>() + of["host"].get<int64_t>() + of["streaming"].get<int64_t>(),
                of["total"].get<int64_t>());
    }
    for (const json& ipu : report["memory"]["ipus"]) {
      int64_t bytes = 0;
      for (const auto& [name, part] : ipu["classes"].items()) bytes += part.get<int64_t>();
      ASSERT_EQ(bytes, ipu["bytes"].get<int64_t>());
      ASSERT_LE(bytes, report["verdict"]["bytes"].get<int64_t>());
    }
    int64_t end = 0;
    for (const json& of_ipu : time["schedule"].back()["ends"])
      if (!of_ipu.is_null()) end = std::max(end, of_ipu.get<int64_t>());
    ASSERT_EQ(end, time["cycles"].get<int64_t>());
  }
}

TEST(Report, is_the_same_bytes_in_every_run_and_thread) {
  for (const auto& module : random_programs(several(20))) {
    const std::string text = ir::print(*module), first = to_json(report_of(*module));
    std::vector<std::future<std::string>> others;
    for (int i = 0; i < 4; ++i)
      others.push_back(std::async(std::launch::async, [&] {
        const auto again = ir::parse(text, "again");
        return to_json(report_of(*again));
      }));
    for (auto& other : others) ASSERT_EQ(other.get(), first);
  }
}

TEST(Report, of_machines_that_differ_in_their_clock_has_the_same_cycles_of_tiles) {
  for (const auto& module : random_programs(several(50))) {
    const Report mk2 = report_of(*module, "pod16"), bow = report_of(*module, "bow-pod16");
    for (size_t i = 0; i < mk2.time.ipus.size(); ++i) {
      const Cycles &ours = mk2.time.ipus[i].cycles, &theirs = bow.time.ipus[i].cycles;
      ASSERT_EQ(ours.compute, theirs.compute);
      ASSERT_EQ(ours.exchange, theirs.exchange);
      ASSERT_EQ(ours.overhead, theirs.overhead);
      ASSERT_LE(ours.links, theirs.links);
      ASSERT_LE(ours.host, theirs.host);
    }
  }
}

// Layers with and without weights over a batch of rows.
std::string network(uint64_t seed, int64_t batch) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  int64_t width = 8 << pick(7);
  std::string variables,
      body = fmt::format("  %x0 = host_load() {{stream=@x | ipu=0}} : f32[{},{}]\n", batch, width);
  const std::string head = fmt::format("stream @x: f32[{},{}] {{ipu=0}}\n", batch, width);
  const int64_t layers = 1 + pick(6);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string x = fmt::format("%x{}", i), y = fmt::format("%x{}", i + 1);
    if (pick(2) == 0) {
      const int64_t next = 8 << pick(7);
      variables += fmt::format("variable @w{}: f32[{},{}] {{ipu=0}}\n", i, width, next);
      body +=
          fmt::format("  %w{} = variable.read() {{variable=@w{} | ipu=0}} : f32[{},{}]\n", i, i, width, next);
      width = next;
      body += fmt::format("  {} = matmul({}, %w{}) {{| ipu=0}} : f32[{},{}]\n", y, x, i, batch, width);
    } else {
      const char* kinds[] = {"tanh", "exp", "relu", "neg", "sqrt"};
      body += fmt::format("  {} = {}({}) {{| ipu=0}} : f32[{},{}]\n", y, kinds[pick(5)], x, batch, width);
    }
  }
  return fmt::format(
      "{}{}stream @y: f32[{},{}] {{direction=\"device_to_host\", ipu=0}}\nentry main = @main\n"
      "graph @main() -> () {{\n{}  host_store(%x{}) {{stream=@y | ipu=0}}\n  return\n}}\n",
      head, variables, batch, width, body, layers);
}

TEST(Report, is_never_faster_than_the_rates_of_the_machine) {
  const target::Machine& pod16 = machine("pod16");
  const double clock = pod16["clock_hz"], link = pod16["link_bytes_per_second"] * pod16["board_links"];
  const auto check = [&](const ir::Module& module) {
    for (const TimedOp& timed : report_of(module).time.ops) {
      const Cycles& c = timed.once.cycles;
      if (timed.op->is(ir::kind::kIpuCopy)) {
        ASSERT_GE(c.links + 1, static_cast<double>(timed.op->result()->type().bytes()) / link * clock);
      }
      if (timed.op->is(ir::kind::kHostLoad)) {
        ASSERT_GE(c.host + 1, static_cast<double>(timed.op->result()->type().bytes()) /
                                  pod16["host_bytes_per_second"] * clock);
      }
      ASSERT_GE(c.compute * pod16["tiles"] * pod16["fp16_16_macs"], timed.once.macs);
    }
  };
  for (const auto& module : random_programs(several(200))) check(*module);
  for (int seed = 1; seed <= several(20); ++seed)
    check(*ir::parse(network(static_cast<uint64_t>(seed), 64), "network"));
}

TEST(Report, says_how_far_its_figures_are_from_measurements) {
  const auto text_of = [](const char* last) {
    return fmt::format(R"(
variable @w: f16[64,64] {{ipu=0}}
stream @x: f16[64,64] {{ipu=0}}
entry main = @main
graph @main() -> () {{
  %w = variable.read() {{variable=@w | ipu=0}} : f16[64,64]
  %x = host_load() {{stream=@x | ipu=0}} : f16[64,64]
  %y = matmul(%x, %w) {{| ipu=0}} : f16[64,64]
  %z = tanh(%y) {{| ipu=0}} : f16[64,64]
  {}
  return
}}
)",
                       last);
  };
  const auto module = ir::parse(text_of(""), "test");
  const Report report = report_of(*module);
  const json figures = json::parse(to_json(report));
  EXPECT_EQ(figures["time"]["figure"], "inference");
  EXPECT_EQ(figures["time"]["expected_error"]["kind"], "model-infer");
  EXPECT_EQ(figures["verdict"]["expected_error"]["kind"], "memory-fit");
  EXPECT_EQ(figures["products"][0]["expected_error"]["kind"], "gemm");
  std::map<std::string, json> kinds;
  for (const json& of : figures["time"]["kinds"]) kinds[of["what"]] = of["expected_error"];
  EXPECT_EQ(kinds["matmul"]["kind"], "gemm");
  EXPECT_FALSE(kinds["matmul"]["is_of_its_own"].get<bool>());
  EXPECT_TRUE(kinds["host_load"]["is_of_its_own"].get<bool>());
  EXPECT_TRUE(kinds["tanh"].is_null());
  const std::string text = to_text(report);
  EXPECT_NE(text.find("expected error of the time, as one of inference: half within "), std::string::npos);
  EXPECT_NE(text.find("[not validated]"), std::string::npos);
  EXPECT_NE(text.find(fmt::format("cycles each [{}]", short_error("product"))), std::string::npos);
  const auto training = ir::parse(text_of("variable.assign(%z) {variable=@w | ipu=0}"), "test");
  EXPECT_EQ(report_of(*training).figure, "training");
}

TEST(Report, of_twice_the_batch_takes_no_less) {
  for (int i = 1; i <= several(40); ++i) {
    const auto seed = static_cast<uint64_t>(i);
    double before = 0;
    for (const int64_t batch : {1, 2, 4, 8, 16, 32, 64, 128}) {
      const auto module = ir::parse(network(seed, batch), "network");
      const double cycles = report_of(*module).time.cycles;
      ASSERT_GE(cycles, before) << network(seed, batch);
      before = cycles;
    }
  }
}

TEST(Report, explains_the_splits_of_its_products) {
  const auto module = ir::parse(R"(
variable @w: f16[1024,4096] {ipu=0}
stream @x: f16[1024,1024] {ipu=0}
stream @y: f16[1024,4096] {direction="device_to_host", ipu=0}
entry main = @main
graph @main() -> () {
  %w = variable.read() {variable=@w | ipu=0} : f16[1024,4096]
  %x = host_load() {stream=@x | ipu=0} : f16[1024,1024]
  %y = matmul(%x, %w) {| ipu=0} : f16[1024,4096] loc("model.py":4, "fc")
  host_store(%y) {stream=@y | ipu=0}
  return
}
)",
                                "test");
  const Report report = report_of(*module);
  ASSERT_EQ(report.products.size(), 1u);
  const ProductReport& product = report.products[0];
  EXPECT_EQ(product.executions, 1);
  EXPECT_EQ(product.line, "model.py:4");
  EXPECT_EQ(product.cycles, std::round(product.choice.best.cycles.total()));
  EXPECT_TRUE(!product.choice.second_fits ||
              product.choice.second.cycles.total() >= product.choice.best.cycles.total());
  const std::string text = to_text(report);
  EXPECT_NE(text.find("1 x matmul [1024, 1024] x [1024, 4096] at model.py:4: "), std::string::npos) << text;
  EXPECT_NE(text.find("    second: "), std::string::npos) << text;
}

TEST(Report, says_what_does_not_fit_and_why) {
  const auto module = ir::parse(R"(
variable @w: f32[300000] {ipu=0}
entry main = @main
graph @main() -> () {
  return
}
)",
                                "test");
  const Report report = report_of(*module, "toy");
  const json figures = json::parse(to_json(report));
  EXPECT_FALSE(figures["verdict"]["fits"].get<bool>());
  EXPECT_EQ(figures["verdict"]["limits"][0]["kind"], "tile memory");
  EXPECT_GE(figures["verdict"]["bytes"].get<int64_t>(), 300000 * 4 / 16);
  const std::string text = to_text(report);
  EXPECT_TRUE(text.starts_with("does not fit: IPU 0 needs ")) << text;
  EXPECT_NE(text.find("out of tile memory: IPU 0 needs "), std::string::npos) << text;
  EXPECT_NE(text.find(", weights 75,0"), std::string::npos) << text;
  EXPECT_TRUE(to_text(report_of(*module)).starts_with("fits: "));
}

TEST(Report, shows_the_largest_variables_and_counts_the_others) {
  std::string text;
  for (int i = 1; i <= 12; ++i) text += fmt::format("variable @v{}: f32[{}] {{ipu=0}}\n", i, i);
  const auto module = ir::parse(text + "entry main = @main\ngraph @main() -> () {\n  return\n}\n", "test");
  const std::string shown = to_text(report_of(*module));
  EXPECT_NE(shown.find("variables:\n  v12: f32[12], parameter, IPU 0, 48 bytes\n  v11: "), std::string::npos)
      << shown;
  EXPECT_NE(shown.find("  v3: f32[3], parameter, IPU 0, 12 bytes\n  2 more\n"), std::string::npos) << shown;
  EXPECT_EQ(json::parse(to_json(report_of(*module)))["memory"]["variables"].size(), 12u);
}

TEST(Report, names_the_kinds_that_are_guessed) {
  const auto module = ir::parse("entry main = @main\ngraph @main() -> () {\n  return\n}\n", "test");
  Report report = report_of(*module);
  EXPECT_EQ(to_text(report).find("bytes alone"), std::string::npos);
  report.time.guesses = {{"cumsum", 3, {}}};
  EXPECT_NE(to_text(report).find("1 kind(s) of operations are priced by their bytes alone: cumsum (3)"),
            std::string::npos);
}

}  // namespace
}  // namespace ipu::report
