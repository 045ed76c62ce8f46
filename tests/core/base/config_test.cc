#include "core/base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <fstream>
#include <random>

#include "core/base/log.h"

namespace foldcast {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string variable_of(std::string_view key) {
  std::string name = "FOLDCAST_";
  for (char c : key) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

// --- The table -------------------------------------------------------------------------------------------------------

TEST(Config, EveryEntryIsDocumentedOnceAndItsDefaultCanBeGiven) {
  std::vector<std::string_view> seen;
  for (const auto& entry : Config::entries()) {
    SCOPED_TRACE(std::string(entry.key));
    EXPECT_THAT(seen, testing::Not(testing::Contains(entry.key)));
    seen.push_back(entry.key);
    EXPECT_GT(entry.documentation.size(), 20u);
    EXPECT_EQ(entry.documentation.back(), '.');
    EXPECT_EQ(entry.documentation.find('\n'), std::string_view::npos);
    // Given as a value, a default yields what is there without it.
    if (entry.default_value.empty()) continue;
    auto given = Config::from({{variable_of(entry.key), std::string(entry.default_value)}});
    ASSERT_TRUE(given.ok()) << given.status().to_string();
    EXPECT_EQ(given->text(entry.key), entry.default_value);
    EXPECT_EQ(given->source(entry.key), ConfigSource::kEnvironment);
  }
  for (const auto& entry : Config::launch_entries()) EXPECT_GT(entry.documentation.size(), 20u);
}

TEST(Config, DefaultsInTheTableAreThoseOfTheFields) {
  auto parsed = Config::from({});
  ASSERT_TRUE(parsed.ok());
  Config untouched;
  EXPECT_EQ(parsed->timeout, untouched.timeout);
  EXPECT_EQ(parsed->setup_timeout, untouched.setup_timeout);
  EXPECT_EQ(parsed->path, untouched.path);
  EXPECT_EQ(parsed->transport, untouched.transport);
  EXPECT_EQ(parsed->fragment_bytes, untouched.fragment_bytes);
  EXPECT_EQ(parsed->depth, untouched.depth);
  EXPECT_EQ(parsed->spin_us, untouched.spin_us);
  EXPECT_THAT(parsed->warnings(), IsEmpty());
  for (const auto& entry : Config::entries()) {
    EXPECT_EQ(parsed->text(entry.key), entry.default_value);
    EXPECT_EQ(parsed->source(entry.key), ConfigSource::kDefault);
  }
}

TEST(Config, EveryValueReachesItsField) {
  auto config = Config::from({{"FOLDCAST_TIMEOUT", "250ms"},
                              {"FOLDCAST_SETUP_TIMEOUT", "2min"},
                              {"FOLDCAST_JOB_KEY", "secret"},
                              {"FOLDCAST_PATH", "host"},
                              {"FOLDCAST_PLAN", "ring"},
                              {"FOLDCAST_TRANSPORT", "inproc"},
                              {"FOLDCAST_TOPOLOGY", "/t"},
                              {"FOLDCAST_AGGREGATORS", "a=h:1"},
                              {"FOLDCAST_AGGREGATOR_KEY_FILE", "/k"},
                              {"FOLDCAST_FRAGMENT_BYTES", "64K"},
                              {"FOLDCAST_DEPTH", "4"},
                              {"FOLDCAST_LINK_LATENCY_US", "1.5"},
                              {"FOLDCAST_LINK_GBPS", "100"},
                              {"FOLDCAST_SPIN_US", "7"},
                              {"FOLDCAST_HOSTNAME", "node3"},
                              {"HOME", "/root"}});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->timeout, 250ms);
  EXPECT_EQ(config->setup_timeout, 120s);
  EXPECT_EQ(config->job_key, "secret");
  EXPECT_EQ(config->path, "host");
  EXPECT_EQ(config->plan, "ring");
  EXPECT_EQ(config->transport, "inproc");
  EXPECT_EQ(config->topology, "/t");
  EXPECT_EQ(config->aggregators, "a=h:1");
  EXPECT_EQ(config->aggregator_key_file, "/k");
  EXPECT_EQ(config->fragment_bytes, 65536u);
  EXPECT_EQ(config->depth, 4u);
  EXPECT_EQ(config->link_latency_us, 1.5);
  EXPECT_EQ(config->link_gbps, 100);
  EXPECT_EQ(config->spin_us, 7);
  EXPECT_EQ(config->hostname, "node3");
  EXPECT_THAT(config->warnings(), IsEmpty());
}

TEST(Config, TheJobKeyIsNeverShown) {
  auto config = Config::from({{"FOLDCAST_JOB_KEY", "hunter2"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->job_key, "hunter2");
  EXPECT_EQ(config->text("job_key"), "set");
  EXPECT_EQ(Config::from({})->text("job_key"), "");
}

// --- Bad values ------------------------------------------------------------------------------------------------------

struct BadValue {
  std::string variable, value, expected;
};

class BadValues : public testing::TestWithParam<BadValue> {};

TEST_P(BadValues, AreErrorsThatNameVariableValueAndWhatIsExpected) {
  const auto& [variable, value, expected] = GetParam();
  auto config = Config::from({{variable, value}});
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(config.status().message(), HasSubstr(variable + "=\"" + value + "\""));
  EXPECT_THAT(config.status().message(), HasSubstr(expected));
}

INSTANTIATE_TEST_SUITE_P(All, BadValues,
                         testing::Values(BadValue{"FOLDCAST_TIMEOUT", "soon", "expected a time"},
                                         BadValue{"FOLDCAST_TIMEOUT", "5 parsecs", "expected a time"},
                                         BadValue{"FOLDCAST_TIMEOUT", "-1s", "expected a time"},
                                         BadValue{"FOLDCAST_TIMEOUT", "0", "1ms to 24h"},
                                         BadValue{"FOLDCAST_TIMEOUT", "25h", "1ms to 24h"},
                                         BadValue{"FOLDCAST_TIMEOUT", "nan", "expected a time"},
                                         BadValue{"FOLDCAST_TIMEOUT", "1e300s", "expected a time"},
                                         BadValue{"FOLDCAST_SETUP_TIMEOUT", "inf", "expected a time"},
                                         BadValue{"FOLDCAST_PATH", "Host", "auto, offload, host"},
                                         BadValue{"FOLDCAST_FRAGMENT_BYTES", "64X", "expected a size"},
                                         BadValue{"FOLDCAST_FRAGMENT_BYTES", "-1", "expected a size"},
                                         BadValue{"FOLDCAST_FRAGMENT_BYTES", "2G", "at most 1G"},
                                         BadValue{"FOLDCAST_FRAGMENT_BYTES", "1.0001K", "expected a size"},
                                         BadValue{"FOLDCAST_FRAGMENT_BYTES", "99999999999999999999", "expected a size"},
                                         BadValue{"FOLDCAST_DEPTH", "-1", "from 0 to 1024"},
                                         BadValue{"FOLDCAST_DEPTH", "1025", "from 0 to 1024"},
                                         BadValue{"FOLDCAST_DEPTH", "4x", "from 0 to 1024"},
                                         BadValue{"FOLDCAST_LINK_GBPS", "-1", "0 or more"},
                                         BadValue{"FOLDCAST_LINK_GBPS", "nan", "0 or more"},
                                         BadValue{"FOLDCAST_SPIN_US", "-2", "from -1"},
                                         BadValue{"FOLDCAST_LOG_LEVEL", "loud", "expected one of trace"}));

TEST(Units, Durations) {
  EXPECT_EQ(*parse_duration("5s"), 5000ms);
  EXPECT_EQ(*parse_duration("250ms"), 250ms);
  EXPECT_EQ(*parse_duration("250"), 250ms);
  EXPECT_EQ(*parse_duration("1.5 s"), 1500ms);
  EXPECT_EQ(*parse_duration("2min"), 120s);
  EXPECT_EQ(*parse_duration("1h"), 1h);
  for (const char* bad : {"", " ", "s", "5 s s", "5ss", "1us", "0x5"}) EXPECT_FALSE(parse_duration(bad).ok()) << bad;
}

TEST(Units, Sizes) {
  EXPECT_EQ(*parse_size("0"), 0u);
  EXPECT_EQ(*parse_size("64K"), 65536u);
  EXPECT_EQ(*parse_size("64k"), 65536u);
  EXPECT_EQ(*parse_size("4M"), 4u << 20);
  EXPECT_EQ(*parse_size("4MiB"), 4u << 20);
  EXPECT_EQ(*parse_size("4MB"), 4u << 20);
  EXPECT_EQ(*parse_size("1.5G"), 3u << 29);
  EXPECT_EQ(*parse_size("7B"), 7u);
  EXPECT_EQ(*parse_size("18446744073709551615"), ~0ull);
  for (const char* bad : {"", "K", "4 M M", "-4K", "0.3", "1e30T", "ib", "4iB"})
    EXPECT_FALSE(parse_size(bad).ok()) << bad;
}

// --- Names -----------------------------------------------------------------------------------------------------------

TEST(Config, AnUnknownVariableIsAWarningWithTheNearestName) {
  auto warning_for = [](const std::string& name) {
    auto config = Config::from({{name, "1"}});
    EXPECT_TRUE(config.ok());
    EXPECT_EQ(config->warnings().size(), 1u);
    return config->warnings().at(0);
  };
  EXPECT_EQ(warning_for("FOLDCAST_TIMEUOT"), "unknown variable FOLDCAST_TIMEUOT: did you mean FOLDCAST_TIMEOUT?");
  EXPECT_THAT(warning_for("FOLDCAST_TRANSPRT"), HasSubstr("FOLDCAST_TRANSPORT?"));
  EXPECT_THAT(warning_for("FOLDCAST_JOBKEY"), HasSubstr("FOLDCAST_JOB_KEY?"));
  EXPECT_THAT(warning_for("FOLDCAST_RNAK"), HasSubstr("FOLDCAST_RANK?"));
  EXPECT_THAT(warning_for("FOLDCAST_timeout"), HasSubstr("FOLDCAST_TIMEOUT?"));
  EXPECT_THAT(warning_for("FOLDCAST_BANANAS_ARE_YELLOW"), HasSubstr("`foldcast config` lists"));
}

TEST(Config, LaunchVariablesAreKnownAndEmptyCountsAsUnset) {
  auto config = Config::from({{"FOLDCAST_RANK", "1"},
                              {"FOLDCAST_SIZE", "2"},
                              {"FOLDCAST_LOCAL_RANK", "0"},
                              {"FOLDCAST_STORE", "a:1"},
                              {"FOLDCAST_STORE_PORT", "1"},
                              {"FOLDCAST_CONFIG", "x"},
                              {"FOLDCAST_LOG_LEVEL", "debug"},
                              {"FOLDCAST_TEST_SEED", "3"},
                              {"FOLDCAST_TIMEOUT", ""},
                              {"FOLDCASTLE", "x"}});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_THAT(config->warnings(), IsEmpty());
  EXPECT_EQ(config->timeout, 5s);
  EXPECT_EQ(config->source("timeout"), ConfigSource::kDefault);
}

TEST(NearestName, FindsTyposAndNothingElse) {
  constexpr std::string_view names[] = {"timeout", "path", "plan"};
  EXPECT_EQ(nearest_name("timeuot", names), "timeout");  // a swap costs one
  EXPECT_EQ(nearest_name("timeot", names), "timeout");
  EXPECT_EQ(nearest_name("timmeout", names), "timeout");
  EXPECT_EQ(nearest_name("pth", names), "path");
  EXPECT_EQ(nearest_name("path", names), "path");
  EXPECT_EQ(nearest_name("banana", names), std::nullopt);
  EXPECT_EQ(nearest_name("x", names), std::nullopt);
  EXPECT_EQ(nearest_name("", names), std::nullopt);
  EXPECT_EQ(nearest_name("path", {}), std::nullopt);
}

TEST(NearestName, FindsEveryKeyAfterOneRandomEdit) {
  auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<std::string_view> names;
  for (const auto& entry : Config::entries()) names.push_back(entry.key);
  for (int i = 0; i < 500; ++i) {
    std::string_view name = names[random() % names.size()];
    std::string word(name);
    std::size_t at = random() % (word.size() - 1);
    switch (random() % 4) {
      case 0:
        word.erase(at, 1);
        break;
      case 1:
        word.insert(at, 1, 'q');
        break;
      case 2:
        word[at] = 'q';
        break;
      default:
        std::swap(word[at], word[at + 1]);
        break;
    }
    EXPECT_EQ(nearest_name(word, names), name) << word;
  }
}

// --- Files -----------------------------------------------------------------------------------------------------------

TEST(ConfigFile, IsBelowTheEnvironmentAndAboveDefaults) {
  auto config = Config::from({{"FOLDCAST_DEPTH", "3"}}, "depth = 9\ntimeout = \"7s\"\nlink_gbps = 2.5\nspin_us = -1\n");
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->depth, 3u);
  EXPECT_EQ(config->source("depth"), ConfigSource::kEnvironment);
  EXPECT_EQ(config->timeout, 7s);
  EXPECT_EQ(config->source("timeout"), ConfigSource::kFile);
  EXPECT_EQ(config->link_gbps, 2.5);
  EXPECT_EQ(config->source("path"), ConfigSource::kDefault);
}

TEST(ConfigFile, MistakesNameTheLine) {
  auto message = [](const char* toml) { return Config::from({}, toml).status().message(); };
  EXPECT_THAT(message("\ntimeout = \"soon\""), HasSubstr("foldcast.toml: line 2: timeout=\"soon\""));
  EXPECT_THAT(message("\n\ndepth = [1]"), HasSubstr("line 3: depth: expected a string or a number"));
  EXPECT_THAT(message("depth = = 3"), HasSubstr("foldcast.toml: line 1"));
  EXPECT_THAT(message("depth = true"), HasSubstr("expected a string or a number"));
  EXPECT_THAT(message("depth = 1\ndepth = 2"), HasSubstr("line 2"));
}

TEST(ConfigFile, UnknownKeysAreWarnings) {
  auto config = Config::from({}, "timeot = 5\nrank = 3\n[section]\na = 1\n");
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  ASSERT_EQ(config->warnings().size(), 3u);
  EXPECT_THAT(config->warnings(), testing::Contains(HasSubstr("\"timeot\": did you mean timeout?")));
  EXPECT_THAT(config->warnings(), testing::Contains(HasSubstr("as FOLDCAST_RANK")));
  EXPECT_THAT(config->warnings(), testing::Contains(HasSubstr("\"section\"")));
}

/// A directory of this test's own, removed with its files.
class Directory {
 public:
  Directory() {
    char name[] = "/tmp/foldcast-config-XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    path_ = name;
  }
  ~Directory() {
    for (const auto& file : files_) ::unlink(file.c_str());
    ::rmdir(path_.c_str());
  }
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    std::string path = path_ + "/" + name;
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    files_.push_back(path);
    return path;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

TEST(KeyFile, IsReadWithoutItsLineEnd) {
  Directory directory;
  auto path = directory.write("key", "s3cret \n");
  auto config = Config::from({{"FOLDCAST_JOB_KEY_FILE", path}});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->job_key, "s3cret ");
  for (const auto& entry : Config::entries()) EXPECT_THAT(config->text(entry.key), testing::Not(HasSubstr("s3cret")));
}

TEST(KeyFile, OthersCanReadIsRefusedWithTheCommandToRun) {
  Directory directory;
  for (mode_t mode : {0604, 0640, 0644, 0602}) {
    auto path = directory.write("key", "s3cret", mode);
    auto config = Config::from({{"FOLDCAST_JOB_KEY_FILE", path}});
    ASSERT_FALSE(config.ok());
    EXPECT_THAT(config.status().message(), HasSubstr("chmod 600 " + path));
    EXPECT_THAT(config.status().message(), testing::Not(HasSubstr("s3cret")));
  }
}

TEST(KeyFile, OddFilesAreRefusedByName) {
  Directory directory;
  auto message = [](const std::string& path) {
    return Config::from({{"FOLDCAST_JOB_KEY_FILE", path}}).status().message();
  };
  EXPECT_THAT(message("/no/such/file"), HasSubstr("FOLDCAST_JOB_KEY_FILE: open /no/such/file"));
  EXPECT_THAT(message(directory.write("empty", "\n")), HasSubstr("is empty"));
  EXPECT_THAT(message(directory.write("long", std::string(5000, 'x'))), HasSubstr("longer than"));
  EXPECT_THAT(message(directory.path()), HasSubstr("not a regular file"));
  std::string fifo = directory.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(message(fifo), HasSubstr("not a regular file"));  // and does not wait for a writer
  ::unlink(fifo.c_str());
}

TEST(KeyFile, TheNearerSourceWinsAndTwoOfOneSourceContradict) {
  Directory directory;
  auto path = directory.write("key", "from file");
  EXPECT_THAT(Config::from({{"FOLDCAST_JOB_KEY_FILE", path}, {"FOLDCAST_JOB_KEY", "x"}}).status().message(),
              HasSubstr("both set"));
  EXPECT_EQ(Config::from({{"FOLDCAST_JOB_KEY", "x"}}, "job_key_file = \"" + path + "\"")->job_key, "x");
  EXPECT_EQ(Config::from({{"FOLDCAST_JOB_KEY_FILE", path}}, "job_key = \"x\"")->job_key, "from file");
}

/// The process's environment, put back at the end.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(FromEnvironment, ReadsTheFileThatIsNamed) {
  Directory directory;
  Variable file("FOLDCAST_CONFIG", directory.write("f.toml", "depth = 5\nlog_level = \"error\"\n"));
  Variable path("FOLDCAST_PATH", "host");
  auto before = log().level();
  auto config = Config::from_environment();
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->depth, 5u);
  EXPECT_EQ(config->path, "host");
  EXPECT_EQ(log().level(), spdlog::level::err);
  log().set_level(before);
}

TEST(FromEnvironment, ANamedFileMustExistAndAKeyInItMustBePrivate) {
  Directory directory;
  {
    Variable file("FOLDCAST_CONFIG", "/no/such.toml");
    EXPECT_THAT(Config::from_environment().status().message(), HasSubstr("FOLDCAST_CONFIG: open /no/such.toml"));
  }
  Variable file("FOLDCAST_CONFIG", directory.write("f.toml", "job_key = \"s3cret\"\n", 0644));
  EXPECT_THAT(Config::from_environment().status().message(), HasSubstr("chmod 600"));
}

}  // namespace
}  // namespace foldcast
