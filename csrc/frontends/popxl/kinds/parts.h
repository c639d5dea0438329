// The parts of ops that importers of other front ends build too (matrix products of any rank, convolutions and
// pooling of volumes), for rows: an ImportCall that has a builder and nothing else.
#pragma once

#include "frontends/popxl/op_kind.h"
#include "ops/definition/import_call.h"
#include "support/error.h"

namespace ipu::popxl {

class PartsCall : public ops::ImportCall {
 public:
  explicit PartsCall(LowerCall& call) : call_(call) {}
  std::string described() const override { return call_.kind().type; }
  ir::Builder& builder() override { return call_.builder(); }

  bool has(std::string_view name) override { return nothing(name), false; }
  double real(std::string_view name) override { return nothing(name), 0.0; }
  bool boolean(std::string_view name) override { return nothing(name), false; }
  std::string text(std::string_view name) override { return nothing(name), ""; }
  int64_t wide_integer(std::string_view name) override { return nothing(name), 0; }
  std::vector<int64_t> wide_integers(std::string_view name) override { return nothing(name), Shape{}; }
  int result_count() override { return nothing("results"), 0; }
  void set_result(int, ir::Value*) override { nothing("results"); }
  ir::Value* seed() override { return nothing("seed"), nullptr; }
  int64_t next_stream() override { return nothing("stream"), 0; }

 private:
  [[noreturn]] static void nothing(std::string_view name) {
    IPU_CHECK(false, "a part asks for " + std::string(name));
    std::abort();
  }
  LowerCall& call_;
};

}  // namespace ipu::popxl
