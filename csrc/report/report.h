// Everything that is known of a program on a machine before it runs. Text, JSON, Python and what comes later read this structure, so
// that no figure differs between them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/strategy.h"
#include "report/program_report.h"
#include "report/program_time.h"
#include "report/verdict.h"
#include "target/products/product_choice.h"

namespace ipu::report {

// Bytes of the fullest tile of an IPU, in whole ones: the classes of its memory, which add up to `bytes`.
struct IpuMemoryReport {
  int ipu = 0;  // within the replica
  std::array<int64_t, kMemoryClasses> classes{};
  int64_t bytes = 0;
};

// Products of one shape, with the split that the planner chose.
struct ProductReport {
  std::string kind, line;   // of the first one
  std::string_view figure;  // as OpTime
  target::ProductShape shape;
  target::ProductOptions options;
  double executions = 0;
  double cycles = 0;  // of one
  target::ProductChoice choice;
};

// What a stream moves in a run of one replica.
struct StreamReport {
  std::string name, type;
  bool is_input = true;
  int ipu = 0;
  double elements = 0;  // of that type
  int64_t bytes = 0;    // of one
};

// Operations that are alike: of one kind and type of result, written at one line in one module, on one IPU.
struct OperationReport {
  std::string kind, type, line, module;
  int ipu = 0;
  std::optional<int> sender;
  bool is_guess = false;
  int64_t count = 0;
  double executions = 0;
  Cycles cycles;
};

struct Request {
  std::string entry = "main";
  int64_t replicas = 1;
  int64_t replicas_of_machine = 0;  // that it must have IPUs for, those of one process; 0: all
  int64_t samples = 0;              // of a run, of all replicas; 0: not known
  bool is_outlined = true;          // of the verdict: ops that come again run the code of earlier ones
  size_t most_products = 8;         // of which the choice of the split is explained
};

struct Report {
  const target::Machine* machine = nullptr;
  Request request;
  ir::Strategy strategy;
  ProgramReport program;
  std::string_view figure;  // "training" or "inference" (expected_error.h)
  ProgramTime time;         // its ops are those of the module
  Verdict verdict;
  std::vector<IpuMemoryReport> memory;  // as verdict.ipus
  std::vector<StreamReport> streams;
  std::vector<OperationReport> operations;  // most cycles first
  std::vector<ProductReport> products;      // most cycles first

  const IpuMemoryReport& fullest() const;
  // Micro-batches of a run of one replica, as far as streams show them.
  double micro_batches() const;
};

// Errors as describe and program_time. The module and the machine outlive the report.
Report make_report(const ir::Module& machine_form, const target::Machine& machine, const Request& request);

// What a person reads first comes first. Lines of long lists are left out, and counted.
std::string to_text(const Report& report);
// docs/report-schema.md
std::string to_json(const Report& report);
inline constexpr int kSchemaVersion = 2;

}  // namespace ipu::report
