// The executable cache: what its key depends on, hits, damaged entries, several threads at once.
#include "executable/cache/cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "executable/format/container.h"
#include "ir/text/text.h"
#include "program/program.h"
#include "support/error.h"
#include "support/log.h"
#include "tests/executable/cache_folder.h"
#include "tests/support/scoped_variable.h"

namespace ipu::executable {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> differing(const CacheKey& a, const CacheKey& b) {
  std::vector<std::string> parts;
  for (const auto& [part, value] : a)
    if (b.at(part) != value) parts.push_back(part);
  return parts;
}

TEST(ExecutableCache, the_key_has_a_part_for_everything_that_decides) {
  using Parts = std::vector<std::string>;
  const target::System& pod16 = target::find_system("pod16");
  CompileOptions options, more;
  more.replicas = 2;
  const CacheKey key = cache_key(*sample(), pod16, options, "1");
  EXPECT_EQ(differing(key, cache_key(*sample(), pod16, options, "1")), Parts{});
  EXPECT_EQ(differing(key, cache_key(*sample(0.5f, "tanh", "b.py"), pod16, options, "1")), Parts{});
  EXPECT_EQ(differing(key, cache_key(*sample(0.75f), pod16, options, "1")), Parts{"constants"});
  EXPECT_EQ(differing(key, cache_key(*sample(0.5f, "sin"), pod16, options, "1")), Parts{"graph"});
  EXPECT_EQ(differing(key, cache_key(*sample(), pod16, more, "1")), Parts{"options"});
  EXPECT_EQ(differing(key, cache_key(*sample(), target::find_system("pod4"), options, "1")),
            Parts{"machine"});
  EXPECT_EQ(differing(key, cache_key(*sample(), pod16, options, "2")), Parts{"version"});
}

TEST(ExecutableCache, the_key_has_every_option) {
  CompileOptions plain;
  plain.host = {};
  std::vector<CompileOptions> changed(9, plain);
  changed[0].pipeline = "simplify";
  changed[1].replicas = 2;
  changed[2].processes = 2;
  changed[3].input_groups = {1, 0};
  changed[4].auto_round_num_ipus = true;
  changed[5].any_ipu_count = true;
  changed[6].host.memory = 1000;
  changed[7].host.recomputation = passes::HostRecomputation::kNever;
  changed[8].is_dry = true;
  const auto options = [](const CompileOptions& of) {
    return cache_key(*sample(), target::find_system("pod16"), of, "1").at("options");
  };
  EXPECT_EQ(options(plain),
            "pipeline=default replicas=1 processes=1 input_groups={size:1,stride:1,assignment:[]} "
            "auto_round_num_ipus=false any_ipu_count=false most_ipus=64 is_dry=false verify=ends "
            "host={recomputation:when_memory_asks,memory:9223372036854775807}");
  for (const CompileOptions& other : changed) EXPECT_NE(options(other), options(plain));
}

// Physical memory decides whether recomputation is executed when nothing else is said.
TEST(ExecutableCache, the_key_has_the_memory_of_the_host_and_what_replaces_it) {
  using Parts = std::vector<std::string>;
  auto key = [] { return cache_key(*sample(), target::find_system("pod16"), {}, "1"); };
  ScopedVariable no_memory("POPTORCH_HOST_MEMORY", std::nullopt);
  ScopedVariable no_wish("POPTORCH_EXECUTE_RECOMPUTE", std::nullopt);
  const CacheKey unset = key();
  const int64_t physical = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  EXPECT_NE(unset.at("options").find("memory:" + std::to_string(physical)), std::string::npos)
      << unset.at("options");
  ScopedVariable same("POPTORCH_HOST_MEMORY", std::to_string(physical));
  EXPECT_EQ(differing(unset, key()), Parts{});
  ScopedVariable less("POPTORCH_HOST_MEMORY", "1000000");
  EXPECT_EQ(differing(unset, key()), Parts{"options"});
  ScopedVariable always("POPTORCH_EXECUTE_RECOMPUTE", "1");
  const CacheKey forced = key();
  EXPECT_EQ(differing(unset, forced), Parts{"options"});
  ScopedVariable more("POPTORCH_HOST_MEMORY", "2000000");  // does not matter then
  EXPECT_EQ(differing(forced, key()), Parts{});
}

using ExecutableCacheFolder = CacheFolder;

TEST_F(ExecutableCacheFolder, the_second_time_is_a_hit_with_the_same_program) {
  Executable first = get(), second = get(), other = get(2.0f);
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_FALSE(other.from_cache);
  EXPECT_EQ(program::print(*first.program), program::print(*second.program));
  EXPECT_EQ(first.ir_text, second.ir_text);
  EXPECT_EQ(files().size(), 2u);  // no locks and no temporary files stay
}

TEST_F(ExecutableCacheFolder, a_damaged_entry_is_compiled_and_written_again) {
  get();
  const fs::path entry = folder_ / files().at(0);
  fs::resize_file(entry, fs::file_size(entry) / 2);
  EXPECT_FALSE(get().from_cache);
  EXPECT_TRUE(get().from_cache);
}

TEST_F(ExecutableCacheFolder, threads_at_once_compile_once) {
  std::vector<char> hits(4, 0);
  std::vector<std::thread> threads;
  for (char& hit : hits) threads.emplace_back([&] { hit = get().from_cache ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(hits.begin(), hits.end(), 0), 1);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(ExecutableCacheFolder, a_lock_that_a_dead_process_left_is_no_obstacle) {
  const CacheKey key = cache_key(*sample(), target::find_system("pod16"), {}, "1");
  fs::create_directories(folder_);
  std::ofstream(folder_ / (fs::path(entry_name(key)).stem().string() + ".lock")) << "";
  EXPECT_FALSE(get().from_cache);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(ExecutableCacheFolder, a_folder_that_cannot_be_made_is_an_error) {
  std::ofstream(folder_.string()) << "a file";
  try {
    get();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("cannot write file [IPU-E504]: the folder of the executable cache, " +
                                   folder_.string()),
              std::string::npos)
        << error.message();
  }
}

// --- what somebody else may have put into the folder

TEST_F(ExecutableCacheFolder, a_renamed_entry_is_not_run) {
  const std::string expected = program::print(*get(0.5f).program);
  get(2.0f);
  fs::rename(entry(2.0f), entry(0.5f));
  Executable again = get(0.5f);
  EXPECT_FALSE(again.from_cache);
  EXPECT_EQ(program::print(*again.program), expected);
  EXPECT_TRUE(get(0.5f).from_cache);  // and the right one is there again
}

TEST_F(ExecutableCacheFolder, an_entry_with_the_key_of_another_program_is_not_run) {
  const std::string expected = program::print(*get(0.5f).program);
  get_wide();
  Container wide = Container::read(entry_of_wide());
  const Container right = Container::read(entry(0.5f));
  auto forge = [&](const Container& from, const std::string& section, const std::string& old,
                   const std::string& text) {
    ContainerWriter writer;
    for (const auto& [name, value] : right.metadata())
      if (!name.starts_with("digest:")) writer.metadata[name] = value;
    for (const auto& [name, blob] : from.blobs())
      if (name != section) writer.add(name, blob);
    if (!section.empty()) {
      std::string changed(from.section(section));
      const size_t at = changed.rfind(old);
      ASSERT_NE(at, std::string::npos) << old;
      writer.add_section(section, changed.replace(at, old.size(), text));
    }
    writer.write(entry(0.5f), Writers::kThisUser);
    Executable again = get(0.5f);
    EXPECT_FALSE(again.from_cache) << text;
    EXPECT_EQ(program::print(*again.program), expected);
  };
  forge(wide, "", "", "");
  const Container same = Container::parse(bytes_of(entry(0.5f)), "FILE");
  forge(same, "program", "\"name\":\"x\"", "\"name\":\"q\"");
  forge(same, "executable", "\"ipu_version\":2", "\"ipu_version\":21");
}

TEST_F(ExecutableCacheFolder, shards_and_remote_buffers_come_back) {
  CompileOptions options;
  options.replicas = 2;
  const auto module = [] {
    return ir::parse(R"(
module {replicas=2}
remote_buffer @b: f32[3] {entries=2}
variable @v: f32[3] {remote_buffer=@b, remote_entry=1}
variable @w: f32[3] {initial=dense<f32[5]: [0.0, 1.0, 2.0, 3.0, 4.0]>, meta_shape=[5], shard_over=2}
entry main = @main
graph @main() -> () {
  %v = variable.read() {variable=@v} : f32[3]
  %w = variable.read() {variable=@w} : f32[3]
  %n = add(%v, %w) : f32[3]
  variable.assign(%n) {variable=@w}
  return
}
)");
  };
  const auto get = [&] {
    return compile_cached(*module(), target::find_system("pod16"), options, {folder_.string(), "1"});
  };
  const std::string expected = program::print(*get().program);
  Executable again = get();
  EXPECT_TRUE(again.from_cache);
  EXPECT_EQ(program::print(*again.program), expected);

  const std::string path =
      (folder_ / entry_name(cache_key(*module(), target::find_system("pod16"), options, "1"))).string();
  const Container right = Container::read(path);
  ContainerWriter writer;
  for (const auto& [name, value] : right.metadata())
    if (!name.starts_with("digest:")) writer.metadata[name] = value;
  for (const auto& [name, blob] : right.blobs())
    if (name != "program") writer.add(name, blob);
  std::string changed(right.section("program"));
  const size_t at = changed.find("\"remote_entry\":1");
  ASSERT_NE(at, std::string::npos);
  writer.add_section("program", changed.replace(at, 16, "\"remote_entry\":0"));
  writer.write(path, Writers::kThisUser);
  again = get();
  EXPECT_FALSE(again.from_cache);
  EXPECT_EQ(program::print(*again.program), expected);
}

TEST_F(ExecutableCacheFolder, an_entry_that_the_front_end_objects_to_is_not_run) {
  const std::string expected = program::print(*get().program);
  std::string why = "a run moves too much";
  const auto ask = [&] {
    auto module = sample();
    return compile_cached(
        *module, target::find_system("pod16"), {},
        {.directory = folder_.string(), .version = "1", .objection = [&](const program::Program& found) {
           EXPECT_EQ(program::print(found), expected);
           return why;
         }});
  };
  EXPECT_FALSE(ask().from_cache);
  why.clear();
  EXPECT_TRUE(ask().from_cache);
}

TEST_F(ExecutableCacheFolder, what_others_can_write_is_not_read) {
  get();
  EXPECT_EQ(mode_of(folder_), 0700);
  EXPECT_EQ(mode_of(entry()), 0600);
  for (mode_t mode : {0620, 0602}) {
    ASSERT_EQ(::chmod(entry().c_str(), mode), 0);
    EXPECT_FALSE(get().from_cache);
    EXPECT_EQ(mode_of(entry()), 0600);
    EXPECT_TRUE(get().from_cache);
  }
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(entry().c_str(), 12345, 12345), 0);
    EXPECT_FALSE(get().from_cache);
  }
}

TEST_F(ExecutableCacheFolder, links_and_pipes_are_no_entries) {
  get();
  const fs::path elsewhere = folder_ / "elsewhere";
  fs::rename(entry(), elsewhere);
  fs::create_symlink(elsewhere, entry());
  EXPECT_FALSE(get().from_cache);
  EXPECT_FALSE(fs::is_symlink(entry()));
  fs::remove(entry());
  ASSERT_EQ(::mkfifo(entry().c_str(), 0600), 0);  // opening one for reading would wait for ever
  EXPECT_FALSE(get().from_cache);
  EXPECT_TRUE(get().from_cache);
  fs::remove(entry());
  fs::create_directory(entry());
  EXPECT_FALSE(get().from_cache);
}

TEST_F(ExecutableCacheFolder, a_lock_is_a_file_of_this_user_or_there_is_none) {
  fs::create_directories(folder_);
  const fs::path lock = fs::path(entry()).replace_extension(".lock"), victim = folder_ / "victim";
  fs::create_symlink(victim, lock);
  EXPECT_FALSE(get().from_cache);
  EXPECT_FALSE(fs::exists(victim)) << "made through a link";
  EXPECT_TRUE(fs::is_symlink(lock)) << "only a lock that was held is removed";
  fs::remove(lock);
  fs::remove(entry());
  ASSERT_EQ(::mkfifo(lock.c_str(), 0666), 0);
  EXPECT_FALSE(get().from_cache);
  fs::remove(lock);
  fs::remove(entry());
  if (::geteuid() != 0) return;
  std::ofstream(lock.string()) << "";
  ASSERT_EQ(::chown(lock.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(get().from_cache);
}

TEST_F(ExecutableCacheFolder, a_pipe_among_the_entries_stops_no_explanation) {
  fs::create_directories(folder_);
  ASSERT_EQ(::mkfifo((folder_ / "a.poptorch").c_str(), 0600), 0);
  const LogLevel level = log_level();
  set_log_level(LogLevel::kInfo);
  EXPECT_FALSE(get().from_cache);
  set_log_level(level);
}

}  // namespace
}  // namespace ipu::executable
