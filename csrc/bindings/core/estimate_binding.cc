#include <pybind11/stl.h>

#include <tuple>

#include "bindings/core/machine_binding.h"
#include "target/known_machine.h"
#include "target/passes/passes.h"
#include "target/passes/vertex_loops.h"
#include "target/transfers/collectives.h"
#include "target/transfers/exchange.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
using target::known_machine;

// Rungs, whether a rung is crossed, whether all goes to one other IPU.
using Way = std::tuple<int64_t, bool, bool>;
target::Hops hops(const Way& way) { return {std::get<0>(way), std::get<1>(way), std::get<2>(way)}; }
Way way(const target::Hops& hops) { return {hops.rungs, hops.crosses, hops.is_one_other}; }

py::dict stencil(const std::string& name, int64_t rows, int64_t columns, int64_t least_rows,
                 int64_t least_columns, int64_t cell_bytes, int64_t vectors, int64_t ipus) {
  target::Stencil stencil;
  stencil.rows = rows;
  stencil.columns = columns;
  stencil.least_rows = least_rows;
  stencil.least_columns = least_columns;
  stencil.cell_bytes = cell_bytes;
  stencil.vectors = vectors;
  stencil.ipus = ipus;
  const target::StencilCycles cycles = target::stencil_cycles(known_machine(name), stencil);
  py::dict parts;
  parts["compute"] = cycles.compute;
  parts["pack"] = cycles.pack;
  parts["unpack"] = cycles.unpack;
  parts["exchange"] = cycles.exchange;
  parts["links"] = cycles.links;
  parts["control"] = cycles.control;
  py::dict result;
  result["cycles"] = cycles.total();
  result["parts"] = parts;
  result["tiles"] = cycles.tiles;
  return result;
}

void bind_transfers(py::module_& m) {
  m.def(
      "way_between", [](int64_t from, int64_t to) { return way(target::hops_between(from, to)); },
      "From one IPU to another: rungs of the ladder, whether a rung is crossed, and that all goes to one IPU.");
  m.def(
      "longest_way", [](int64_t ipus) { return way(target::longest_hops(ipus)); },
      "The longest way between two of the first IPUs.");
  m.def(
      "word_seconds",
      [](const std::string& name, const std::string& pattern, int64_t tiles, int64_t ipus, const Way& path) {
        return target::word_seconds(known_machine(name), target::find_pattern(pattern), tiles, ipus,
                                    hops(path));
      },
      "A word from or to each of the tiles: pairs, broadcast, gather, scatter or all-to-all.");
  m.def(
      "message_seconds",
      [](const std::string& name, const std::string& pattern, int64_t tiles, double bytes, int64_t ipus,
         const Way& path) {
        return target::message_seconds(known_machine(name), target::find_pattern(pattern), tiles, bytes, ipus,
                                       hops(path));
      },
      "So many bytes from or to each of the tiles.");
  m.def(
      "wire_cycles",
      [](const std::string& name, bool is_farthest) {
        return target::wire_cycles(known_machine(name), is_farthest);
      },
      "A word to the nearest or the farthest tile without the sync.");
  m.def(
      "multicast_cycles",
      [](const std::string& name, int64_t words, bool is_receiver) {
        return target::multicast_cycles(known_machine(name), words, is_receiver);
      },
      "Words to several tiles, of the sender or of a receiver.");
  m.def(
      "scheduled_cycles",
      [](const std::string& name, double cycles) {
        return target::scheduled_cycles(known_machine(name), cycles);
      },
      "A phase of the exchange with a schedule of so many cycles.");
  m.def(
      "link_seconds",
      [](const std::string& name, const Way& path) {
        return target::hop_seconds(known_machine(name), hops(path));
      },
      "A word over the links.");
  m.def(
      "link_bytes_per_second",
      [](const std::string& name, const Way& path) {
        return target::hop_bytes_per_second(known_machine(name), hops(path));
      },
      "From an IPU to another one, in one direction.");
  m.def(
      "random_bytes_per_second",
      [](const std::string& name, int64_t ipus) {
        return target::random_bytes_per_second(known_machine(name), ipus);
      },
      "Between tiles of several IPUs at random.");
  m.def(
      "host_seconds",
      [](const std::string& name, int64_t tiles) { return target::host_seconds(known_machine(name), tiles); },
      "A word from the host to each tile of an IPU.");
  m.def(
      "host_bytes_per_second",
      [](const std::string& name, int64_t tiles, int64_t lanes) {
        return target::host_bytes_per_second(known_machine(name), tiles, lanes);
      },
      "From the host to tiles, over lanes of PCIe; 0: those of one IPU.");
  m.def(
      "reduce_seconds",
      [](const std::string& name, int64_t operands, int64_t tiles, int64_t ipus) {
        return target::reduce_seconds(known_machine(name), operands, tiles, ipus);
      },
      "The sum of so many fp32 numbers on each of the tiles of each IPU.");
  m.def(
      "all_reduce_seconds",
      [](const std::string& name, double bytes, int64_t replicas, int64_t ipus) {
        return target::all_reduce_seconds(known_machine(name), bytes, replicas, ipus);
      },
      "The sum of the bytes of all replicas, each of so many IPUs.");
}

}  // namespace

void bind_estimates(py::module_& m) {
  bind_transfers(m);
  m.def("stencil_step", &stencil, py::arg("machine"), py::arg("rows"), py::arg("columns"),
        py::arg("least_rows"), py::arg("least_columns"), py::arg("cell_bytes"), py::arg("vectors"),
        py::arg("ipus"),
        "Cycles of a step over a grid, their parts, and the tiles that have a part of the grid.");
  m.def(
      "vertex_loop_cycles",
      [](const std::string& name, double instructions, int64_t iterations, int64_t unrolled) {
        return target::vertex_loop_cycles(known_machine(name), instructions, iterations, unrolled);
      },
      "A loop in C++ on a tile whose busiest worker does so many iterations.");
  m.def(
      "memory_bytes_per_second",
      [](const std::string& name, double bytes, double instructions, int64_t unrolled) {
        return target::memory_bytes_per_second(known_machine(name), bytes, instructions, unrolled);
      },
      "Such a loop in all workers of an IPU that moves so many bytes an iteration.");
  m.def(
      "load_bytes_per_second",
      [](const std::string& name, int64_t bits) {
        return target::load_bytes_per_second(known_machine(name), bits);
      },
      "Loads of so many bits in all workers of an IPU.");
  m.def(
      "local_copy_cycles",
      [](const std::string& name, int64_t bytes) {
        return target::local_copy_cycles(known_machine(name), bytes);
      },
      "A copy on a tile.");
  m.def(
      "random_cycles",
      [](const std::string& name, int64_t elements) {
        return target::random_cycles(known_machine(name), elements);
      },
      "Random fp32 numbers on the tiles of an IPU.");
}

}  // namespace ipu::bindings
