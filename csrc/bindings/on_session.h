// Methods of an executor's session as methods of the executor, for pybind11.
#pragma once

#include "frontends/torch/executor/executor.h"
#include "python/without_lock.h"

namespace ipu::bindings {

// Called without the interpreter lock, as with unlocked().
template <typename Result, typename... Arguments>
auto on_session(Result (runtime::Session::*method)(Arguments...)) {
  return [method](frontends::torch_frontend::Executor& executor, std::decay_t<Arguments>... arguments) {
    return python::without_gil([&]() -> Result { return (executor.session().*method)(arguments...); });
  };
}

}  // namespace ipu::bindings
