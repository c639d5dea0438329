// What a PopART session writes into a module beside its strategy, for recomputation and for whoever tells the user's
// operators from the ops they became. Constants only.
#pragma once

namespace ipu::ir {

// In the attributes of an origin: the first result of the node of the model, which all ops of the node share.
inline constexpr char kOriginNode[] = "node";
inline constexpr char kOriginLoss[] = "loss";  // the node gives what is trained on
// Of a module: what is made again is made by ops of the program (SessionOptions.explicitRecomputation).
inline constexpr char kExplicitRecomputation[] = "explicit_recomputation";

}  // namespace ipu::ir
