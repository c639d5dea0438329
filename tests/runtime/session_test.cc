#include "runtime/session.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "ir/text/text.h"
#include "runtime/device_pool.h"
#include "support/error.h"
#include "tests/thrown.h"

namespace ipu::runtime {
namespace {

constexpr const char* kAddsToItsVariable = R"(
  variable @w: f32[2]
  stream @x: f32[2]
  stream @y: f32[2] {direction="device_to_host"}
  entry main = @main
  graph @main() -> () {
    %x = host_load() {stream=@x} : f32[2]
    %w = variable.read() {variable=@w} : f32[2]
    %y = mul(%x, %w) : f32[2]
    %n = add(%x, %w) : f32[2]
    host_store(%y) {stream=@y}
    variable.assign(%n) {variable=@w}
    return
  })";

// Each replica gives its value of @w, then adds 1 to it.
std::string grouped(const std::string& fields) {
  return "module {replicas=4}\nvariable @w: f32[] {" + fields + R"(}
  stream @y: f32[] {direction="device_to_host", mode="all"}
  entry main = @main
  graph @main() -> () {
    %w = variable.read() {variable=@w} : f32[]
    host_store(%w) {stream=@y}
    %one = constant() {value=dense<f32[]: 1.0>} : f32[]
    %n = add(%w, %one) : f32[]
    variable.assign(%n) {variable=@w}
    return
  })";
}

executable::Executable compiled(const std::string& text, int replicas = 1) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  executable::CompileOptions options;
  options.replicas = replicas;
  return executable::compile(*module, target::attached_system(), options);
}

std::vector<float> read(Session& session, const std::string& name) {
  const program::Variable& v = *session.variables().find(name);
  const Shape shape = session.variables().host_shape(v);
  std::vector<float> values(static_cast<size_t>(element_count(shape)));
  Session::Access(session, "reading")
      .read(v, {DType::kF32, shape, std::as_writable_bytes(std::span(values))});
  return values;
}

void write(Session& session, const std::string& name, const std::vector<float>& values, Shape shape) {
  Session::Access(session, "writing")
      .write(*session.variables().find(name),
             {DType::kF32, std::move(shape), std::as_bytes(std::span(values))});
}

template <typename T>
void bind_values(Session::Call& call, int stream, std::vector<T>& values, int64_t elements = 1) {
  call.bind(stream, reinterpret_cast<std::byte*>(values.data()), elements);
}

std::vector<float> run(Session& session, std::vector<float> x) {
  std::vector<float> y(x.size());
  Session::Call call(session);
  bind_values(call, 0, x);
  bind_values(call, 1, y);
  call.run();
  return y;
}

using Floats = std::vector<float>;

TEST(Session, runs_what_is_bound_and_keeps_variables_between_runs) {
  Session session(compiled(kAddsToItsVariable), {}, {});
  session.attach();
  write(session, "w", {1, 2}, {2});
  EXPECT_EQ(run(session, {3, 4}), (Floats{3, 8}));
  EXPECT_EQ(run(session, {1, 1}), (Floats{4, 6}));
  EXPECT_EQ(read(session, "w"), (Floats{5, 7}));
  EXPECT_EQ(session.variables().find("v"), nullptr);
}

TEST(Session, takes_no_call_before_it_is_told_to) {
  Session session(compiled(kAddsToItsVariable), {}, {});
  EXPECT_FALSE(session.accept_calls(true));
  EXPECT_FALSE(session.accepts_calls());  // there is no device
  session.attach();
  EXPECT_FALSE(Session::Call(session).is_accepted());
  EXPECT_FALSE(session.accept_calls(true));
  EXPECT_TRUE(Session::Call(session).is_accepted());
  EXPECT_TRUE(session.accept_calls(false));
  EXPECT_FALSE(session.accepts_calls());
}

TEST(Session, says_what_needs_a_device) {
  Session session(compiled(kAddsToItsVariable), {}, {});
  EXPECT_FALSE(session.is_attached());
  EXPECT_EQ(message_of([&] { session.detach(); }), "not attached [IPU-E407]: detaching needs a device.");
  EXPECT_NE(message_of([&] { Session::Access(session, "reading weights"); }).find("reading weights needs"),
            std::string::npos);
  EXPECT_NE(message_of([&] { session.cycles(); }).find("has not run yet"), std::string::npos);
  session.attach();
  EXPECT_TRUE(session.is_attached());
  EXPECT_NE(message_of([&] { session.attach(); }).find("already attached"), std::string::npos);
}

TEST(Session, a_run_after_another_thread_detached_is_an_error_and_gives_no_old_values) {
  Session session(compiled(kAddsToItsVariable), {}, {});
  session.attach();
  session.detach();
  EXPECT_NE(message_of([&] {
              run(session, {1, 2});
            }).find("not attached [IPU-E407]: running needs a device"),
            std::string::npos);
}

TEST(Session, holds_its_ipus_until_it_detaches_or_ends) {
  const int all = target::attached_system().num_ipus;
  DevicePool& pool = DevicePool::instance();
  ASSERT_EQ(pool.free_count(), all);
  {
    Session first(compiled(kAddsToItsVariable), {}, {}), second(compiled(kAddsToItsVariable), {}, {});
    first.attach();
    EXPECT_EQ(first.first_ipu(), 0);
    RunSettings same;
    same.device.ipu_id = 0;
    second.configure(same);
    EXPECT_NE(message_of([&] { second.attach(); }), "no error");
    EXPECT_FALSE(second.is_attached());
    EXPECT_EQ(pool.free_count(), all - 1);
    first.detach();
    EXPECT_EQ(first.first_ipu(), -1);
    second.attach();
    EXPECT_EQ(second.first_ipu(), 0);
    RunSettings model;
    model.device.ipu_model = true;
    first.configure(model);
    first.attach();
    EXPECT_EQ(first.first_ipu(), -1);
    EXPECT_EQ(pool.free_count(), all - 1);
  }
  EXPECT_EQ(pool.free_count(), all);
}

TEST(Session, waiting_for_ipus_ends_with_an_interruption) {
  Session holder(compiled(kAddsToItsVariable), {}, {}), waiter(compiled(kAddsToItsVariable), {}, {});
  holder.attach();
  RunSettings same;
  same.device.ipu_id = 0;
  same.device.wait_for_ipu = true;
  waiter.configure(same);
  int asked = 0;
  waiter.set_interrupted([&] { return ++asked == 3; });
  EXPECT_NE(message_of([&] { waiter.attach(); }).find(": while waiting for IPUs"), std::string::npos);
  EXPECT_EQ(asked, 3);
}

struct GroupingCase {
  const char* fields;
  Floats written, seen, left;  // by entry, by replica, by entry
};

class SessionGroups : public testing::TestWithParam<GroupingCase> {};

TEST_P(SessionGroups, entries_of_a_variable_reach_the_replicas_of_their_group) {
  const GroupingCase& c = GetParam();
  Session session(compiled(grouped(c.fields), 4), {}, {});
  session.attach();
  const bool one = c.written.size() == 1;
  write(session, "w", c.written, one ? Shape{} : Shape{static_cast<int64_t>(c.written.size())});
  Floats seen(4);
  {
    Session::Call call(session);
    bind_values(call, 0, seen, 4);
    call.run();
  }
  EXPECT_EQ(seen, c.seen);
  EXPECT_EQ(read(session, "w"), c.left);
}

INSTANTIATE_TEST_SUITE_P(
    All, SessionGroups,
    testing::Values(
        GroupingCase{"", {3}, {3, 3, 3, 3}, {4}}, GroupingCase{"group_size=2", {1, 2}, {1, 1, 2, 2}, {2, 3}},
        GroupingCase{"group_size=2, group_stride=2", {1, 2}, {1, 2, 1, 2}, {2, 3}},
        GroupingCase{"group_assignment=[0, 1, 1, 0]", {1, 2}, {1, 2, 2, 1}, {2, 3}},
        GroupingCase{"group_size=2, retrieval=\"all_replicas\"", {1, 2}, {1, 1, 2, 2}, {2, 2, 3, 3}},
        GroupingCase{"group_size=2, retrieval=\"all_replicas\"", {1, 2, 3, 4}, {1, 2, 3, 4}, {2, 3, 4, 5}},
        GroupingCase{"group_size=1", {1, 2, 3, 4}, {1, 2, 3, 4}, {2, 3, 4, 5}}));

TEST(Session, refuses_values_of_another_type_or_size) {
  Session session(compiled(grouped("group_size=2"), 4), {}, {});
  session.attach();
  EXPECT_EQ(message_of([&] {
              write(session, "w", {1, 2, 3}, {3});
            }),
            "Shape mismatch [IPU-E201]: w is [2] on the device and [3] on the host");
  EXPECT_EQ(message_of([&] {
              write(session, "w", {1, 2, 3, 4}, {4});
            }),
            "Shape mismatch [IPU-E201]: w is [2] on the device and [4] on the host");
  EXPECT_EQ(message_of([&] { write(session, "w", {1}, {2}); }),  // fewer bytes than the shape says
            "Shape mismatch [IPU-E201]: w is [2] on the device and [2] on the host");
  const std::vector<int32_t> integers{1, 2};
  EXPECT_EQ(message_of([&] {
              Session::Access(session, "writing")
                  .write(*session.variables().find("w"),
                         {DType::kI32, {2}, std::as_bytes(std::span(integers))});
            }),
            "Data type mismatch [IPU-E201]: w is f32 on the device and i32 on the host");
  Floats short_of_one(1);
  EXPECT_EQ(message_of([&] {
              Session::Access(session, "reading")
                  .read(*session.variables().find("w"),
                        {DType::kF32, {1}, std::as_writable_bytes(std::span(short_of_one))});
            }),
            "Shape mismatch [IPU-E201]: w is [2] on the device and [1] on the host");
}

TEST(Session, streams_hyper_parameters_and_takes_new_ones) {
  optimizers::Spec optimizer;
  optimizers::Group group;
  group.hyper = {{"lr", {0.5, false}},
                 {"momentum", {0.0, true}},
                 {"weight_decay", {0.0, true}},
                 {"dampening", {0.0, true}},
                 {"velocity_scaling", {1.0, true}}};
  optimizer.groups = {group};
  optimizer.loss_scaling = {8.0, false};
  Session session(compiled(R"(
  stream @lr: f32[] {constant=true}
  stream @scale: f32[] {constant=true}
  stream @y: f32[] {direction="device_to_host"}
  entry main = @main
  graph @main() -> () {
    %a = host_load() {stream=@lr} : f32[]
    %b = host_load() {stream=@scale} : f32[]
    %y = mul(%a, %b) : f32[]
    host_store(%y) {stream=@y}
    return
  })"),
                  {-1, {{0, 0, "lr"}, {1, -1, "loss_scaling"}}, {}}, optimizer);
  session.attach();
  auto product = [&] {
    Floats y(1);
    Session::Call call(session);
    bind_values(call, 2, y);
    call.run();
    return y[0];
  };
  EXPECT_EQ(product(), 4.0f);
  optimizer.groups[0].hyper["lr"].value = 0.25;
  optimizer.loss_scaling.value = 2.0;
  session.set_optimizer(optimizer);
  EXPECT_EQ(product(), 0.5f);
  optimizer.groups[0].hyper["momentum"].value = 0.9;
  EXPECT_NE(message_of([&] { session.set_optimizer(optimizer); }), "no error");
  EXPECT_EQ(product(), 0.5f);
}

TEST(Session, the_seed_of_a_run_follows_from_the_seed_and_the_runs_before) {
  Session session(compiled(R"(
  stream @seed: u32[2] {constant=true}
  stream @y: u32[2] {direction="device_to_host"}
  entry main = @main
  graph @main() -> () {
    %s = host_load() {stream=@seed} : u32[2]
    host_store(%s) {stream=@y}
    return
  })"),
                  {0, {}, {}}, {});
  session.attach();
  auto seed = [&] {
    std::vector<uint32_t> y(2);
    Session::Call call(session);
    bind_values(call, 1, y);
    call.run();
    return PhiloxKey{y[0], y[1]};
  };
  session.set_random_state({42, 0});
  EXPECT_EQ(seed(), seed_of_run(42, 0));
  EXPECT_EQ(seed(), seed_of_run(42, 1));
  EXPECT_EQ(session.random_state().runs, 2u);
  session.set_random_state({7, 5});
  EXPECT_EQ(seed(), seed_of_run(7, 5));
}

TEST(Session, anchors_have_memory_of_their_own_for_each_run) {
  Session session(compiled(kAddsToItsVariable), {-1, {}, {{"product", 1}}}, {});
  session.attach();
  write(session, "w", {1, 1}, {2});
  EXPECT_TRUE(session.has_anchor("product"));
  EXPECT_FALSE(session.has_anchor("sum"));
  EXPECT_EQ(session.anchored("product").data, nullptr);
  auto next = [&](Floats x) {
    Session::Call call(session);
    bind_values(call, 0, x);
    call.run();
  };
  next({2, 3});
  const HostArray first = session.anchored("product");
  next({5, 5});
  const HostArray second = session.anchored("product");
  EXPECT_EQ(first.shape, (Shape{2}));
  Floats values(4);
  std::memcpy(values.data(), first.data.get(), 8);
  std::memcpy(values.data() + 2, second.data.get(), 8);
  EXPECT_EQ(values, (Floats{2, 3, 15, 20}));
}

TEST(Session, each_run_of_each_session_gives_the_weights_another_version) {
  Session a(compiled(kAddsToItsVariable), {}, {}), b(compiled(kAddsToItsVariable), {}, {});
  a.attach();
  b.attach();
  const uint64_t before = a.weights_version();
  EXPECT_NE(before, b.weights_version());
  run(a, {1, 1});
  EXPECT_NE(a.weights_version(), before);
  EXPECT_EQ(a.weights_version(), a.weights_version());
}

TEST(Session, tracing_is_turned_on_without_a_loss_of_remote_buffers) {
  Session session(compiled(R"(
  remote_buffer @b: f32[2] {entries=2}
  stream @x: f32[2]
  stream @y: f32[2] {direction="device_to_host"}
  entry main = @main
  graph @main() -> () {
    %x = host_load() {stream=@x} : f32[2]
    %y = remote.load() {buffer=@b, entry=1} : f32[2]
    remote.store(%x) {buffer=@b, entry=1}
    host_store(%y) {stream=@y}
    return
  })"),
                  {}, {});
  session.attach();
  EXPECT_EQ(run(session, {1, 2}), (Floats{0, 0}));
  session.set_trace(true);
  EXPECT_EQ(run(session, {3, 4}), (Floats{1, 2}));
  session.set_trace(false);
  EXPECT_EQ(run(session, {5, 6}), (Floats{3, 4}));
}

TEST(Session, tracing_is_turned_on_without_a_loss_of_variables) {
  Session session(compiled(kAddsToItsVariable), {}, {});
  session.attach();
  write(session, "w", {1, 2}, {2});
  run(session, {1, 1});
  EXPECT_TRUE(session.take_trace().empty());
  session.set_trace(true);
  EXPECT_EQ(read(session, "w"), (Floats{2, 3}));
  run(session, {1, 1});
  EXPECT_FALSE(session.take_trace().empty());
  EXPECT_EQ(read(session, "w"), (Floats{3, 4}));
  EXPECT_GE(session.cycles(), 0);
  EXPECT_EQ(session.transfer_times({0, 1}).size(), 2u);
  EXPECT_EQ(session.host_bytes().size(), 1u);
}

TEST(Session, a_program_of_known_results_needs_no_device) {
  Session session({}, {}, {});
  EXPECT_TRUE(session.is_attached());
  session.attach();
  session.detach();
  EXPECT_TRUE(session.accepts_calls());
  Session::Call call(session);
  EXPECT_TRUE(call.is_accepted());
  call.run();
  EXPECT_EQ(session.program_text(), "");
}

}  // namespace
}  // namespace ipu::runtime
