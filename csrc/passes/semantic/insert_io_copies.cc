// Makes every crossing between I/O tiles and the rest of their IPU an op, where transfers overlap with compute
// (ir::is_overlapped): one io_tile_copy behind a host_load that somebody reads, one in front of a host_store. Lowering
// turns them into rings (docs/rationale/overlapped-io.md). Runs behind insert-ipu-copies, so both ends are on one
// IPU. Not here: transfers that just use I/O tiles, which wait for the compute around them.
#include "ir/structure.h"
#include "passes/pass.h"

namespace ipu::passes {
namespace {

std::string name_of(ir::TileSet tiles) { return tiles == ir::TileSet::kIo ? "io" : "compute"; }

bool is_crossing(const ir::Op& op, ir::TileSet to) {
  return op.is("io_tile_copy") && op.settings.exchange != ir::ExchangeStrategy::kJustInTime &&
         op.attributes.text("to") == name_of(to);
}

class InsertIoCopies : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    int64_t copies = 0;
    for (const auto& graph : module.graphs()) {
      for (auto at = graph->ops().begin(); at != graph->ops().end();) {
        ir::Op& op = **at++;
        if (ir::is_overlapped(op)) copies += op.is(ir::kind::kHostLoad) ? hand_over(op) : take(op);
      }
    }
    context.count("copies at I/O tiles", copies);
    return copies > 0;
  }

 private:
  static ir::Op& copy(ir::Op& transfer, ir::Value* value, ir::TileSet to, ir::Op* before) {
    const ir::Type type = value->type();
    ir::Op& made = *transfer.graph()->create("io_tile_copy", {&value, 1}, {{"to", name_of(to)}}, {&type, 1},
                                             before, value->name());
    made.settings = transfer.settings;
    made.settings.tile_set = to;
    made.location = transfer.location;
    return made;
  }

  static int64_t hand_over(ir::Op& load) {
    ir::Value* loaded = load.result();
    bool is_done = !loaded->is_output();
    for (const ir::Use& use : loaded->uses())
      is_done = is_done && is_crossing(*use.user, ir::TileSet::kCompute);
    if (is_done) return 0;
    ir::Op& made = copy(load, loaded, ir::TileSet::kCompute, load.graph()->next(&load));
    loaded->replace_all_uses_with(made.result());
    made.set_operand(0, loaded);
    return 1;
  }

  static int64_t take(ir::Op& store) {
    const ir::Op* producer = store.operand(0)->producer();
    if (producer != nullptr && is_crossing(*producer, ir::TileSet::kIo)) return 0;
    store.set_operand(0, copy(store, store.operand(0), ir::TileSet::kIo, &store).result());
    return 1;
  }
};

IPU_REGISTER_PASS(InsertIoCopies, "insert-io-copies",
                  "Copies values between I/O tiles that work beside their IPU and the rest of it.",
                  {"copies at I/O tiles"});

}  // namespace
}  // namespace ipu::passes
