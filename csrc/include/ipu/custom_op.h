/* Operations of a user's own, from a shared library: plain C tables, no headers of ours but this one.
 *
 * The library exports one function, `ipu_custom_ops`, that returns its table. It is called once, when the
 * library is loaded; tables and everything they point to live as long as the process. All functions may be
 * called by several threads at once. An operation is named "domain.name", from version 2 on
 * "domain.name.vVERSION".
 *
 * A program read from a file can name an operation of a loaded library, with any types, attributes and
 * values. Its views have the memory their types say, and `infer` has agreed to them; values are unchecked, so
 * an operation that takes indices checks them itself.
 *
 * Compile with: c++ -std=c++20 -O2 -fPIC -shared my_ops.cc -o my_ops.so   (or cc; the header is C99)
 */
#ifndef IPU_CUSTOM_OP_H_
#define IPU_CUSTOM_OP_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IPU_CUSTOM_OP_ABI 1
#define IPU_MAX_RANK 8

enum ipu_dtype {
  IPU_F32 = 0,
  IPU_F16 = 1,
  IPU_I32 = 4,
  IPU_U32 = 5,
  IPU_I16 = 6,
  IPU_U16 = 7,
  IPU_I8 = 8,
  IPU_U8 = 9,
  IPU_BOOL = 10
};

typedef struct ipu_type {
  int32_t dtype; /* ipu_dtype */
  int32_t rank;  /* -1: an optional operand that is absent */
  int64_t shape[IPU_MAX_RANK];
} ipu_type;

/* A tensor in memory. Strides are in elements. Views are contiguous unless the op says IPU_TAKES_STRIDED. */
typedef struct ipu_view {
  void* data; /* NULL: absent */
  ipu_type type;
  int64_t strides[IPU_MAX_RANK];
} ipu_view;

enum ipu_attribute_kind { IPU_BOOLEAN, IPU_INTEGER, IPU_REAL, IPU_TEXT, IPU_INTEGERS, IPU_REALS };

typedef struct ipu_value {
  int32_t kind;    /* ipu_attribute_kind */
  int64_t integer; /* of IPU_INTEGER; 0 or 1 of IPU_BOOLEAN */
  double real;
  const char* text;
  const int64_t* integers;
  const double* reals;
  int64_t count; /* of integers or reals */
} ipu_value;

typedef struct ipu_attribute {
  const char* name;
  int32_t required;   /* else `fallback` is its value where the program gives none */
  ipu_value fallback; /* its kind is the attribute's kind */
} ipu_attribute;

typedef struct ipu_operand {
  const char* name;
  uint32_t dtypes;  /* bit 1 << dtype for each one that is accepted; 0: all */
  int32_t optional; /* may be absent; such operands come last */
} ipu_operand;

/* One use of an operation. `attributes` has one value for each attribute of the table, in its order. */
typedef struct ipu_call {
  int32_t operand_count;
  const ipu_type* operands;
  const ipu_value* attributes;
} ipu_call;

enum ipu_effect {
  IPU_SIDE_EFFECTS = 1, /* does more than give results: never merged, dropped or evaluated at compile time */
  IPU_MAY_REUSE_FIRST = 2, /* result 0 may be written over operand 0 when both have the same size */
  IPU_EXPENSIVE = 4,       /* never computed a second time to save memory */
  IPU_TAKES_STRIDED = 8,   /* operands need not be contiguous */
  IPU_COMMUTATIVE = 16     /* the first two operands may change places */
};

enum ipu_gradient_kind {
  IPU_GRADIENT_REFUSED, /* reaching it while differentiating is an error that says `gradient_reason` */
  IPU_GRADIENT_ZERO,
  IPU_GRADIENT_OPS /* made of other operations, as `gradients` says */
};
enum ipu_gradient_source {
  IPU_OPERAND, /* operand `index` of the forward op */
  IPU_RESULT,  /* result `index` of it */
  IPU_UPSTREAM /* the gradient of result `index`; zeros when none arrived */
};
typedef struct ipu_gradient_input {
  int32_t source, index;
} ipu_gradient_input;

/* Operation `op` (its full name) on `inputs`; its result i is the gradient of forward operand outputs[i].
 * Attributes of the forward op that `op` has too are handed on. */
typedef struct ipu_gradient {
  const char* op;
  int32_t input_count;
  const ipu_gradient_input* inputs;
  int32_t output_count;
  const int32_t* outputs;
} ipu_gradient;

typedef struct ipu_custom_op {
  uint32_t struct_size; /* sizeof(ipu_custom_op) */
  const char *domain, *name;
  int32_t version; /* from 1 */
  const char* doc;

  int32_t operand_count;
  const ipu_operand* operands;
  int32_t attribute_count;
  const ipu_attribute* attributes;
  int32_t result_count;
  const char* const* results; /* names */

  /* Fills the types of all results. Not 0: the operands do not fit; `error` (a buffer of `size` bytes) says
   * why. */
  int32_t (*infer)(const ipu_call* call, ipu_type* results, char* error, size_t size);
  /* Computes lane `lane` of the results, which the lanes cut into disjoint parts. Must not throw. */
  void (*run)(const ipu_call* call, const ipu_view* operands, const ipu_view* results, int32_t lane);
  int32_t (*lanes)(const ipu_call* call); /* NULL: 1. From shapes and attributes only */

  uint32_t effects; /* ipu_effect */
  int32_t gradient_kind;
  const char* gradient_reason; /* of IPU_GRADIENT_REFUSED */
  int32_t gradient_count;
  const ipu_gradient* gradients;
  double (*flops)(const ipu_call* call); /* for the device model; NULL: not known */
} ipu_custom_op;

typedef struct ipu_custom_op_table {
  uint32_t abi; /* IPU_CUSTOM_OP_ABI */
  int32_t count;
  const ipu_custom_op* const* ops;
} ipu_custom_op_table;

/* What the library exports. */
const ipu_custom_op_table* ipu_custom_ops(void);

#ifdef __cplusplus
}
#endif

#endif /* IPU_CUSTOM_OP_H_ */
