#include "report/op_time.h"

#include <algorithm>
#include <cmath>

#include "ir/structure.h"
#include "ops/definition/work.h"
#include "target/passes/passes.h"
#include "target/transfers/links.h"

namespace ipu::report {
namespace {

namespace kind = ir::kind;

class Timer {
 public:
  explicit Timer(const target::Machine& machine) : machine_(machine) {}

  Cycles structural(const ir::Op& op) const {
    const ir::Module& module = *op.graph()->module();
    if (op.is(kind::kHostLoad)) {
      // What is the same for a whole run comes before it begins.
      const ir::Stream* stream = module.find_stream(op.attributes.symbol("stream").name);
      return stream != nullptr && stream->constant ? Cycles() : host(*op.result());
    }
    if (op.is(kind::kHostStore)) return host(*op.operand(0));
    if (op.is(kind::kRemoteLoad)) return streaming(*op.result());
    if (op.is(kind::kRemoteStore)) return streaming(*op.operand(0));
    if (op.is(kind::kIpuCopy))
      return link(op.result()->type().bytes(), op.attributes.integer("from"), op.attributes.integer("to"));
    if (op.is(kind::kRingPush) || op.is(kind::kRingPop))
      return ring(*module.find_ring(op.attributes.symbol("ring").name));
    return {};
  }

 private:
  // Both ends take part in a transfer between IPUs.
  Cycles link(int64_t bytes, int64_t from, int64_t to) const {
    const double rate = target::hop_bytes_per_second(machine_, target::hops_between(from, to));
    return {.overhead = machine_["global_sync_cycles"], .links = cycles(bytes, rate)};
  }
  Cycles host(const ir::Value& value) const {
    return {.overhead = machine_["global_sync_cycles"],
            .host = cycles(value.type().bytes(), machine_["host_bytes_per_second"])};
  }
  Cycles streaming(const ir::Value& value) const {
    return {.overhead = machine_["global_sync_cycles"],
            .streaming = cycles(value.type().bytes(), machine_["streaming_bytes_per_second"])};
  }
  Cycles ring(const ir::Ring& ring) const {
    if (ring.from_ipu != ring.to_ipu) return link(ring.type.bytes(), ring.from_ipu, ring.to_ipu);
    const int64_t tiles = machine_.whole("tiles");
    return {.compute = target::local_copy_cycles(machine_, (ring.type.bytes() + tiles - 1) / tiles)};
  }
  double cycles(int64_t bytes, double rate) const {
    return static_cast<double>(bytes) / rate * machine_["clock_hz"];
  }

  const target::Machine& machine_;
};

// It takes what another op left in the layout and on the tiles that suit that one.
bool follows_another(const ir::Op& op) {
  for (int i = 0; i < op.operand_count(); ++i) {
    const ir::Op* producer = op.operand(i) == nullptr ? nullptr : op.operand(i)->producer();
    if (producer != nullptr && !ir::is_structural(*producer)) return true;
  }
  return false;
}

// Its results are less than a vector for each worker.
bool is_small(const ir::Op& op, const target::Machine& machine) {
  int64_t bytes = 0;
  for (int i = 0; i < op.result_count(); ++i) bytes = std::max(bytes, op.result(i)->type().bytes());
  return bytes < machine.whole("tiles") * machine.whole("workers") * machine.whole("vector_bytes");
}

std::string_view structural_figure(const ir::Op& op, const Cycles& cycles) {
  return cycles.links > 0                                  ? "links"
         : cycles.host > 0                                 ? "host"
         : cycles.streaming > 0                            ? "streaming memory"
         : op.is(kind::kRingPush) || op.is(kind::kRingPop) ? "ring"
                                                           : "";
}

Cycles whole(const Cycles& c) {
  return {std::round(c.compute), std::round(c.exchange), std::round(c.overhead),
          std::round(c.links),   std::round(c.host),     std::round(c.streaming)};
}

}  // namespace

Cycles& Cycles::operator+=(const Cycles& other) {
  compute += other.compute;
  exchange += other.exchange;
  overhead += other.overhead;
  links += other.links;
  host += other.host;
  streaming += other.streaming;
  return *this;
}

Cycles Cycles::operator*(double times) const {
  return {compute * times, exchange * times, overhead * times,
          links * times,   host * times,     streaming * times};
}

OpTime time_of(const ir::Op& op, const target::Machine& machine, const target::Replication& replication,
               double collected) {
  if (ir::is_structural(op)) {
    const Cycles cycles = whole(Timer(machine).structural(op));
    return {.cycles = cycles, .figure = structural_figure(op, cycles)};
  }
  const ops::OpWork work = ops::work_of(op);
  OpTime time;
  time.is_guess = work.is_guess;
  target::WorkPrice sum;
  double most = 0;
  for (target::Work phase : work.phases) {
    time.macs += target::macs(phase.form) * static_cast<double>(phase.times);
    if (auto* collective = std::get_if<target::CollectiveWork>(&phase.form)) {
      time.collective_bytes += collective->bytes;
      const double bytes = collective->bytes;
      collective->bytes = collected;
      if (collected > 0) sum += target::price(machine, phase, replication) * -1;
      collective->bytes = collected += bytes;
    }
    const target::WorkPrice price = target::price(machine, phase, replication);
    if (const double cycles = price.cycles() + price.seconds * machine["clock_hz"]; cycles > most) {
      most = cycles;
      time.figure = target::word(phase.form);
    }
    sum += price;
  }
  const double factor =
      !follows_another(op) ? 1 : machine[is_small(op, machine) ? "small_operation_factor" : "network_factor"];
  time.cycles = Cycles{.compute = sum.compute, .exchange = sum.exchange, .overhead = sum.overhead} * factor;
  time.cycles.links = sum.seconds * machine["clock_hz"];
  time.cycles = whole(time.cycles);
  return time;
}

}  // namespace ipu::report
