// A library whose table is wrong, one way per build (BROKEN=1...5): the loader refuses it whole.
#include "ipu/custom_op.h"

namespace {

int32_t infer(const ipu_call* call, ipu_type* results, char*, size_t) {
  results[0] = call->operands[0];
  return 0;
}
void run(const ipu_call*, const ipu_view*, const ipu_view*, int32_t) {}

const ipu_operand kX[] = {{"x", 0, 0}};
const char* const kY[] = {"y"};
const ipu_gradient_input kFrom[] = {{IPU_UPSTREAM, 0}};
const int32_t kTo[] = {0};
const ipu_gradient kGradient[] = {{"test.broken.missing", 1, kFrom, 1, kTo}};

const ipu_custom_op kOp = {sizeof(ipu_custom_op) - (BROKEN == 1 ? 8 : 0),
                           "test.broken",
                           BROKEN == 2 ? "" : "identity",
                           1,
                           "x.",
                           1,
                           kX,
                           0,
                           nullptr,
                           1,
                           kY,
                           infer,
                           BROKEN == 3 ? nullptr : run,
                           nullptr,
                           0,
                           IPU_GRADIENT_OPS,
                           nullptr,
                           BROKEN == 4 ? 1 : 0,
                           kGradient,
                           nullptr};
const ipu_custom_op* const kOps[] = {&kOp};
const ipu_custom_op_table kTable = {BROKEN == 5 ? 99u : IPU_CUSTOM_OP_ABI, 1, kOps};

}  // namespace

extern "C" const ipu_custom_op_table* ipu_custom_ops(void) { return &kTable; }
