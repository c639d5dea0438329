#include <nlohmann/json.hpp>

#include "report/expected_error.h"
#include "report/report.h"

namespace ipu::report {
namespace {

using Json = nlohmann::ordered_json;

// Cycles, executions and elements are whole.
int64_t whole_number(double number) { return static_cast<int64_t>(number); }

Json json_of(const Cycles& c) {
  return {{"compute", whole_number(c.compute)},   {"exchange", whole_number(c.exchange)},
          {"overhead", whole_number(c.overhead)}, {"links", whole_number(c.links)},
          {"host", whole_number(c.host)},         {"streaming", whole_number(c.streaming)},
          {"total", whole_number(c.total())}};
}

template <class List, class Function>
Json list_of(const List& list, Function entry) {
  Json json = Json::array();
  for (const auto& of : list) json.push_back(entry(of));
  return json;
}

// null: not validated.
Json error_json(std::string_view figure) {
  const ExpectedError* error = expected_error(figure);
  if (error == nullptr) return {};
  return {{"kind", error->kind},
          {"half_within_percent", error->half},
          {"nine_of_ten_within_percent", error->most},
          {"measurements", error->measurements},
          {"is_of_its_own", error->is_of_its_own}};
}

Json times_of(const std::vector<TimeOf>& times) {
  return list_of(times, [](const TimeOf& of) {
    return Json{{"what", of.what},
                {"executions", whole_number(of.executions)},
                {"cycles", json_of(of.cycles)},
                {"figure", of.figure},
                {"expected_error", error_json(of.figure)}};
  });
}

Json program_of(const Report& r) {
  const ir::Strategy& s = r.strategy;
  return {{"entry", r.request.entry},
          {"replicas", r.request.replicas},
          {"ipus_per_replica", r.time.ipus.size()},
          {"micro_batches", whole_number(r.micro_batches())},
          {"samples", r.request.samples},
          {"schedule", ir::to_string(s.schedule)},
          {"forward_stages", s.forward_stages},
          {"io_tiles", s.io_tiles},
          {"recomputation", ir::to_string(s.recomputation)},
          {"offload_activations", s.offload_activations},
          {"stochastic_rounding", s.stochastic_rounding},
          {"half_products", s.half_products},
          {"half_convolutions", s.half_convolutions},
          {"streams", list_of(r.streams, [](const StreamReport& of) {
             return Json{{"name", of.name},   {"direction", of.is_input ? "input" : "output"},
                         {"type", of.type},   {"ipu", of.ipu},
                         {"bytes", of.bytes}, {"elements", whole_number(of.elements)}};
           })}};
}

Json machine_of(const target::Machine& machine) {
  Json numbers = Json::object();
  for (size_t i = 0; i < machine.numbers.size(); ++i) {
    const target::MachineNumber& number = machine.numbers[i];
    numbers[number.key] = {
        {"value", number.value}, {"unit", target::machine_keys()[i].unit}, {"tag", target::word(number.tag)}};
  }
  return {{"name", machine.name}, {"about", machine.about}, {"numbers", numbers}};
}

Json schedule_of(const ProgramTime& time) {
  return list_of(time.schedule, [&](const ScheduledGraph& graph) {
    Json ends = Json::array();
    for (size_t i = 0; i < graph.ends.size(); ++i)
      ends.push_back(graph.takes_part[i] ? Json(whole_number(graph.ends[i])) : Json());
    return Json{{"graph", graph.graph->name()},
                {"ends", ends},
                {"parts", list_of(graph.parts, [](const ScheduledGraph::Part& part) {
                   return Json{{"of", part.graph},
                               {"begin", whole_number(part.begin)},
                               {"times", whole_number(part.times)}};
                 })}};
  });
}

Json time_of(const Report& r) {
  const ProgramTime& time = r.time;
  const double runs = time.seconds > 0 ? 1 / time.seconds : 0;
  return {{"cycles", whole_number(time.cycles)},
          {"seconds", time.seconds},
          {"is_maximum", time.is_maximum},
          {"maximum_cycles", whole_number(time.maximum_cycles)},
          {"maximum_seconds", time.maximum_cycles / (*r.machine)["clock_hz"]},
          {"figure", r.figure},
          {"expected_error", error_json(r.figure)},
          {"runs_per_second", runs},
          {"samples_per_second", runs * static_cast<double>(r.request.samples)},
          {"product_operations", time.operations},
          {"ipus", list_of(time.ipus,
                           [](const IpuTime& of) {
                             return Json{{"ipu", of.ipu},
                                         {"busy", json_of(of.cycles)},
                                         {"waiting", whole_number(of.waiting)},
                                         {"beside", json_of(of.beside)}};
                           })},
          {"kinds", times_of(time.kinds)},
          {"lines", times_of(time.lines)},
          {"modules", times_of(time.modules)},
          {"guesses", times_of(time.guesses)},
          {"operations", list_of(r.operations,
                                 [](const OperationReport& of) {
                                   Json json{{"kind", of.kind},
                                             {"type", of.type},
                                             {"line", of.line},
                                             {"module", of.module},
                                             {"ipu", of.ipu}};
                                   if (of.sender) json["sender"] = *of.sender;
                                   if (of.is_guess) json["is_guess"] = true;
                                   json["count"] = of.count;
                                   json["executions"] = whole_number(of.executions);
                                   json["cycles"] = json_of(of.cycles);
                                   return json;
                                 })},
          {"schedule", schedule_of(time)}};
}

Json plan_of(const target::ProductPlan& plan) {
  const target::ProductSplit& s = plan.split;
  Json parts = Json::object();
  for (const auto& [part, cycles] : plan.cycles.parts()) parts[part] = cycles;
  return {{"method", target::word(s.method)},
          {"split",
           {{"groups", s.groups},
            {"rows", s.rows},
            {"inputs", s.inputs},
            {"outputs", s.outputs},
            {"batch", s.batch},
            {"columns", s.columns},
            {"kernel_rows", s.kernel_rows},
            {"steps", s.steps},
            {"input_steps", s.input_steps}}},
          {"tiles", s.tiles()},
          {"cycles", plan.cycles.total()},
          {"parts", parts},
          {"temporary_bytes", plan.temporary_bytes}};
}

Json product_of(const ProductReport& p) {
  return {{"kind", p.kind},
          {"line", p.line},
          {"groups", p.shape.groups},
          {"rows", p.shape.rows},
          {"inputs", p.shape.inputs},
          {"outputs", p.shape.outputs},
          {"batch", p.shape.batch},
          {"columns", p.shape.columns},
          {"kernel", {p.shape.kernel_rows, p.shape.kernel_columns}},
          {"memory_proportion", p.options.memory_proportion},
          {"executions", whole_number(p.executions)},
          {"cycles", whole_number(p.cycles)},
          {"expected_error", error_json(p.figure)},
          {"chosen", plan_of(p.choice.best)},
          {"second", plan_of(p.choice.second)},
          {"second_fits", p.choice.second_fits},
          {"second_lost_in", p.choice.second.cycles.parts()[p.choice.lost_in].first}};
}

Json pieces_of(const std::vector<ProgramReport::Piece>& pieces) {
  return list_of(pieces, [](const ProgramReport::Piece& piece) {
    Json json{{"name", piece.name},
              {"type", piece.type},
              {"what", piece.what},
              {"ipu", piece.ipu},
              {"bytes", piece.bytes}};
    if (!piece.remote.empty()) json["remote_buffer"] = piece.remote;
    return json;
  });
}

Json verdict_of(const Report& r) {
  const Verdict& v = r.verdict;
  return {{"word", word(v)},
          {"fits", v.fits()},
          {"is_certain", v.is_certain()},
          {"ipu", r.fullest().ipu},
          {"bytes", r.fullest().bytes},
          {"bytes_per_tile", v.bytes_per_tile},
          {"expected_error", error_json("memory")},
          {"limits", list_of(v.limits,
                             [](const Limit& limit) {
                               return Json{{"kind", word(limit.kind)},       {"ipu", limit.ipu},
                                           {"subject", limit.subject},       {"needed", limit.needed},
                                           {"allowed", limit.allowed},       {"source", limit.source},
                                           {"is_broken", limit.is_broken()}, {"is_near", limit.is_near()}};
                             })},
          {"cures", v.cures}};
}

Json tile_of(const IpuMemoryReport& of, const TileMemory& tile, const IpuMemory& logical) {
  Json classes = Json::object();
  for (size_t c = 0; c < kMemoryClasses; ++c) classes[word(static_cast<MemoryClass>(c))] = of.classes[c];
  return {{"ipu", of.ipu},
          {"bytes", of.bytes},
          {"classes", classes},
          {"peak_op", tile.peak_op},
          {"peak_line", tile.peak_line},
          {"largest", list_of(tile.largest,
                              [](const MemoryPiece& piece) {
                                return Json{{"name", piece.name},
                                            {"type", piece.type},
                                            {"line", piece.line},
                                            {"class", word(piece.cause)},
                                            {"bytes_of_ipu", piece.bytes}};
                              })},
          {"logical",
           {{"variables", logical.variables},
            {"constants", logical.constants},
            {"rings", logical.rings},
            {"values", logical.values},
            {"total", logical.total()}}}};
}

Json memory_json(const Report& r) {
  Json ipus = Json::array();
  for (size_t i = 0; i < r.memory.size(); ++i)
    ipus.push_back(tile_of(r.memory[i], r.verdict.ipus[i], r.program.memory[i]));
  return {{"ipus", ipus},
          {"streaming_bytes", r.program.streaming_bytes},
          {"variables", pieces_of(r.program.variables)},
          {"rings", pieces_of(r.program.rings)}};
}

Json counts_of(const std::vector<OpsOfKind>& ops) {
  return list_of(ops, [](const OpsOfKind& of) {
    return Json{{"kind", of.kind}, {"count", of.count}, {"recomputed", of.recomputed}};
  });
}

}  // namespace

std::string to_json(const Report& r) {
  const Json json{{"schema", "poptorch.report"},
                  {"version", kSchemaVersion},
                  {"program", program_of(r)},
                  {"machine", machine_of(*r.machine)},
                  {"verdict", verdict_of(r)},
                  {"time", time_of(r)},
                  {"products", list_of(r.products, product_of)},
                  {"memory", memory_json(r)},
                  {"counts", counts_of(r.program.ops)}};
  return json.dump(1) + "\n";
}

}  // namespace ipu::report
