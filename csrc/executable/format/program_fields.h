// Fields of a machine-level program in files.
#pragma once

#include "program/program.h"
#include "support/fields.h"

namespace ipu {

template <>
struct EnumNames<program::Storage> {
  static constexpr std::string_view names[] = {"arena", "variable", "constant", "external", "parameter"};
};
template <>
struct EnumNames<program::StreamMode> {
  static constexpr std::string_view names[] = {"final", "every_n", "all", "sum", "input", "constant_input"};
};

IPU_FIELDS(program::Buffer, field("name", &T::name), field("storage", &T::storage), field("bytes", &T::bytes),
           field("offset", &T::offset), field("index", &T::index));
IPU_FIELDS(ReplicaGrouping, field("size", &T::size), field("stride", &T::stride),
           field("assignment", &T::assignment));
IPU_FIELDS(program::Variable, field("name", &T::name), field("role", &T::role), field("spec", &T::spec),
           field("ipu", &T::ipu), field("constant", &T::constant), field("written", &T::written),
           field("shape", &T::shape), field("groups", &T::groups), field("retrieve_all", &T::retrieve_all),
           field("shards", &T::shards), field("remote_buffer", &T::remote_buffer),
           field("remote_entry", &T::remote_entry));
IPU_FIELDS(program::RemoteBuffer, field("name", &T::name), field("spec", &T::spec),
           field("entries", &T::entries), field("ipu", &T::ipu));
IPU_FIELDS(program::Ring, field("name", &T::name), field("bytes", &T::bytes), field("capacity", &T::capacity),
           field("from_ipu", &T::from_ipu), field("to_ipu", &T::to_ipu));
IPU_FIELDS(program::Stream, field("name", &T::name), field("mode", &T::mode), field("spec", &T::spec),
           field("host_dtype", &T::host_dtype), field("period", &T::period), field("block", &T::block),
           field("ipu", &T::ipu));
IPU_FIELDS(program::Operand, field("buffer", &T::buffer), field("byte_offset", &T::byte_offset),
           field("spec", &T::spec));
IPU_FIELDS(program::Instruction, field("opcode", &T::opcode), field("kernel", &T::kernel),
           field("attributes", &T::attributes), field("operands", &T::operands),
           field("results", &T::results), field("object", &T::object), field("counter", &T::counter),
           field("trip", &T::trip), field("low", &T::low), field("high", &T::high),
           field("target", &T::target), field("origin", &T::origin));
IPU_FIELDS(program::Origin, field("op", &T::op), field("location", &T::location), field("joined", &T::joined),
           field("stage", &T::stage), field("backward", &T::backward));
IPU_FIELDS(program::Subroutine, field("name", &T::name), field("begin", &T::begin),
           field("inputs", &T::inputs), field("outputs", &T::outputs));
IPU_FIELDS(program::IpuProgram, field("buffers", &T::buffers), field("instructions", &T::instructions),
           field("entries", &T::entries), field("subroutines", &T::subroutines),
           field("arena_bytes", &T::arena_bytes), field("counters", &T::counters),
           field("peak_bytes", &T::peak_bytes), field("live_at_peak", &T::live_at_peak),
           field("io_of", &T::io_of));
IPU_FIELDS(program::Program, field("ipus", &T::ipus), field("variables", &T::variables),
           field("constants", &T::constants), field("rings", &T::rings), field("streams", &T::streams),
           field("remote_buffers", &T::remote_buffers), field("processes", &T::processes),
           field("origins", &T::origins), field("replicas", &T::replicas),
           field("input_groups", &T::input_groups), field("entry_points", &T::entry_points));

}  // namespace ipu
