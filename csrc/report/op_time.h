// What one op of a machine form takes on its IPUs.
#pragma once

#include "ir/module.h"
#include "target/work/work.h"

namespace ipu::report {

// Cycles of one execution, by what the IPU does: whole numbers.
struct Cycles {
  double compute = 0;    // its tiles compute
  double exchange = 0;   // its tiles send bytes to each other
  double overhead = 0;   // syncs, starts of phases, control
  double links = 0;      // bytes go to or come from other IPUs
  double host = 0;       // bytes go to or come from the host
  double streaming = 0;  // bytes go to or come from streaming memory
  double total() const { return compute + exchange + overhead + links + host + streaming; }
  Cycles& operator+=(const Cycles& other);
  Cycles operator*(double times) const;
  bool operator==(const Cycles&) const = default;
};

struct OpTime {
  Cycles cycles;
  bool is_guess = false;        // from bytes alone
  double macs = 0;              // multiply-accumulates of its products
  double collective_bytes = 0;  // that replicas bring together
  // What takes most of it: a word of a work form, "links", "host", "streaming memory" or "ring" (expected_error.h).
  std::string_view figure = {};
};

// Regions take nothing themselves. Collectives that come one after the other are one of all their bytes: `collected` are those of the
// ones before, and what the op adds to them is its time.
OpTime time_of(const ir::Op& op, const target::Machine& machine, const target::Replication& replication,
               double collected = 0);

}  // namespace ipu::report
