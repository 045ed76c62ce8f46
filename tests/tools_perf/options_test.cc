#include "tools/foldcast/perf_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foldcast::tools {
namespace {

using ::testing::HasSubstr;

std::vector<std::uint64_t> bytes_of(const std::vector<PerfSize>& sizes) {
  std::vector<std::uint64_t> bytes;
  for (const PerfSize& size : sizes) bytes.push_back(size.bytes);
  return bytes;
}

TEST(ParseSize, TakesBinarySuffixesAndFractions) {
  EXPECT_EQ(parse_size("-b", "0").value(), 0u);
  EXPECT_EQ(parse_size("-b", "4097").value(), 4097u);
  EXPECT_EQ(parse_size("-b", "64K").value(), 65536u);
  EXPECT_EQ(parse_size("-b", "16m").value(), 16777216u);
  EXPECT_EQ(parse_size("-b", "2G").value(), 2147483648u);
  EXPECT_EQ(parse_size("-b", "1.5KiB").value(), 1536u);
}

TEST(ParseSize, RefusesWhatIsNoSizeNamingFlagAndText) {
  for (const char* text : {"", "-5", "+5", "K", "12x", "0.3", "nan", "inf", "1e3", "0x10", "2000000G",
                           "99999999999999999999999", " 8", "8 "}) {
    auto size = parse_size("-b", text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_EQ(size.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(size.status().message(), HasSubstr("-b " + std::string(text)));
  }
}

TEST(Sweep, GrowsByFactorOrStep) {
  PerfFlags flags;
  flags.min_bytes = "8";
  flags.max_bytes = "130";
  EXPECT_EQ(bytes_of(validate(flags)->sizes), (std::vector<std::uint64_t>{8, 32, 128}));
  flags.step_bytes = "61";
  EXPECT_EQ(bytes_of(validate(flags)->sizes), (std::vector<std::uint64_t>{8, 69, 130}));
  flags.step_bytes.clear();
  flags.factor = "2";
  flags.min_bytes = "0";
  EXPECT_EQ(bytes_of(validate(flags)->sizes), (std::vector<std::uint64_t>{0, 8, 16, 32, 64, 128}));
  flags.factor = "1000000000";
  flags.max_bytes = "64M";
  EXPECT_EQ(bytes_of(validate(flags)->sizes), (std::vector<std::uint64_t>{0, 8}));
}

struct BadFlags {
  const char* name;
  void (*set)(PerfFlags&);
  const char* complaint;
};

std::string bad_flags_name(const ::testing::TestParamInfo<BadFlags>& flags) { return flags.param.name; }

class BadInput : public ::testing::TestWithParam<BadFlags> {};

TEST_P(BadInput, IsOneLineThatNamesTheFlag) {
  PerfFlags flags;
  GetParam().set(flags);
  auto options = validate(flags);
  ASSERT_FALSE(options.ok());
  EXPECT_THAT(options.status().message(), HasSubstr(GetParam().complaint));
  EXPECT_EQ(options.status().message().find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Flags, BadInput,
    ::testing::Values(
        BadFlags{"negative_size", [](PerfFlags& f) { f.min_bytes = "-8"; }, "-b -8"},
        BadFlags{"swapped", [](PerfFlags& f) { f.min_bytes = "1G"; }, "swap them"},
        BadFlags{"factor_one", [](PerfFlags& f) { f.factor = "1"; }, "-f 1 never gets"},
        BadFlags{"factor_zero", [](PerfFlags& f) { f.factor = "0"; }, "-f 0 never gets"},
        BadFlags{"factor_word", [](PerfFlags& f) { f.factor = "two"; }, "-f two"},
        BadFlags{"step_zero", [](PerfFlags& f) { f.step_bytes = "0"; }, "-i 0 never gets"},
        BadFlags{"tiny_step", [](PerfFlags& f) { f.step_bytes = "1"; }, "give a larger step"},
        BadFlags{"step_and_factor", [](PerfFlags& f) { f.step_bytes = f.factor = "8"; }, "give one of them"},
        BadFlags{"no_iterations", [](PerfFlags& f) { f.iterations = "0"; }, "-n 0"},
        BadFlags{"negative_iterations", [](PerfFlags& f) { f.iterations = "-3"; }, "-n -3"},
        BadFlags{"negative_warmup", [](PerfFlags& f) { f.warmup = "-1"; }, "-w -1"},
        BadFlags{"seconds", [](PerfFlags& f) { f.seconds = "nan"; }, "--seconds nan"},
        BadFlags{"check", [](PerfFlags& f) { f.check = "2"; }, "-c 2"},
        BadFlags{"blocking", [](PerfFlags& f) { f.blocking = "yes"; }, "-z yes"},
        BadFlags{"datatype", [](PerfFlags& f) { f.datatypes = "float24"; }, "-d float24: unknown; give int8,"},
        BadFlags{"empty_list", [](PerfFlags& f) { f.ops = ""; }, "-o: empty"},
        BadFlags{"op", [](PerfFlags& f) { f.ops = "sum,xor"; }, "-o xor: unknown"},
        BadFlags{"path", [](PerfFlags& f) { f.paths = "host,switch"; }, "--path switch: unknown"},
        BadFlags{"collective", [](PerfFlags& f) { f.collective = "all_shuffle"; }, "all_shuffle: unknown collective"},
        BadFlags{"root", [](PerfFlags& f) { f.root = "-2"; }, "-r -2: give a rank"},
        BadFlags{"root_word", [](PerfFlags& f) { f.root = "first"; }, "-r first"},
        BadFlags{"wire", [](PerfFlags& f) { f.wire = "int8"; }, "--wire int8: unknown; give exact,"},
        BadFlags{"test_every", [](PerfFlags& f) { f.test_every = "-1"; }, "--test-every -1"},
        BadFlags{"test_every_alone", [](PerfFlags& f) { f.test_every = "5"; }, "--overlap"},
        BadFlags{"undefined_pair",
                 [](PerfFlags& f) {
                   f.datatypes = "int8,float32";
                   f.ops = "band";
                 },
                 "-o band is not defined for -d float32"},
        BadFlags{"no_in_place",
                 [](PerfFlags& f) {
                   f.collective = "send_recv";
                   f.in_place = true;
                 },
                 "--in-place: send_recv"},
        BadFlags{"plan_without_path",
                 [](PerfFlags& f) {
                   f.plan = "ring";
                   f.paths = "offload";
                 },
                 "plan of the host path"},
        BadFlags{"no_file", [](PerfFlags& f) { f.sizes_from = "/nonexistent.sizes"; },
                 "/nonexistent.sizes: No such file"},
        BadFlags{"directory", [](PerfFlags& f) { f.sizes_from = "/"; }, "--sizes-from /"}),
    bad_flags_name);

TEST(Lists, TakeAllAndAliasesWithoutRepetition) {
  PerfFlags flags;
  flags.datatypes = "half,fp16,bf16";
  flags.ops = "all";
  flags.paths = "offload,host,offload";
  auto options = validate(flags);
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  EXPECT_EQ(options->datatypes, (std::vector<Datatype>{Datatype::kFloat16, Datatype::kBfloat16}));
  EXPECT_EQ(options->ops.size(), kReduceOpCount);
  EXPECT_EQ(options->paths, (std::vector<PerfPath>{PerfPath::kOffload, PerfPath::kHost}));
}

TEST(Lists, AllTakesThePairsThatAreDefined) {
  PerfFlags flags;
  flags.datatypes = flags.ops = "all";
  auto options = validate(flags);
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  std::size_t pairs = 0;
  for (Datatype dtype : options->datatypes) pairs += options->ops_of(dtype).size();
  EXPECT_EQ(pairs, 8u * 12 + 6u * 6 + 10) << "integers, floats, bool";
  flags.collective = "all_gather";
  EXPECT_EQ(validate(flags)->ops_of(Datatype::kInt8).size(), 1u) << "nothing is reduced";
}

TEST(Workload, CountsOccurrencesAndIgnoresComments) {
  auto sizes = parse_workload("w", "# buckets\n1048576\n 26214400 # 25 MiB\r\n\n26214400\n1K\n");
  ASSERT_TRUE(sizes.ok()) << sizes.status().to_string();
  EXPECT_EQ(*sizes, (std::vector<PerfSize>{{1048576, 1}, {26214400, 2}, {1024, 1}}));
}

TEST(Workload, NamesTheLineThatIsWrong) {
  EXPECT_THAT(parse_workload("w", "8\n\nsixteen\n").status().message(), HasSubstr("w:3: sixteen"));
  EXPECT_THAT(parse_workload("w", "# nothing\n").status().message(), HasSubstr("no sizes"));
}

TEST(Settings, AreWhatTheFlagsDoNotSay) {
  Config config = Config::from({{"FOLDCAST_PATH", "host"}, {"FOLDCAST_PLAN", "ring"}}).value();
  PerfFlags flags = with_settings({}, config);
  EXPECT_EQ(flags.paths, "host");
  EXPECT_EQ(flags.plan, "ring");
  flags.paths = "auto";
  flags.plan = "tree";
  EXPECT_EQ(with_settings(flags, config).paths, "auto");
  EXPECT_EQ(with_settings(flags, config).plan, "tree");
}

TEST(Plan, AppliesToThePathsThatHaveIt) {
  EXPECT_TRUE(plan_applies("ring", PerfPath::kHost));
  EXPECT_TRUE(plan_applies("double_tree", PerfPath::kHost));
  EXPECT_FALSE(plan_applies("node+ring", PerfPath::kOffload));
  EXPECT_TRUE(plan_applies("tree", PerfPath::kOffload));
  EXPECT_TRUE(plan_applies("node+tree", PerfPath::kOffload));
  EXPECT_FALSE(plan_applies("node+tree", PerfPath::kHost));
  EXPECT_TRUE(plan_applies("ring", PerfPath::kAuto));
}

}  // namespace
}  // namespace foldcast::tools
