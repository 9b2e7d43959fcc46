//===- TuningTest.cpp - heddle-bench --tune -------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/Tuning.h"

#include "bundle/format/Tilings.h"
#include "runtime/test/device/cuda/Fixture.h"
#include "runtime/test/engine/TestBundle.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace heddle;
using namespace heddle::bench;
namespace fs = std::filesystem;

namespace {

const std::vector<Candidate> four = {{"a.hdl", "a", R"({"keys":64})"},
                                     {"p.hdl", "p", ""},
                                     {"b.hdl", "b", R"({"keys":96})"},
                                     {"c.hdl", "c", R"({"keys":128})"}};

/// Rates by candidate, the same at all lengths but where `slow` says so.
TuneResult choose(const std::vector<double> &rates, const TuneRequest &request,
                  std::vector<size_t> *asked = nullptr,
                  std::pair<size_t, int64_t> slow = {9, 0}) {
  auto result = chooseTiling(
      four, {64, 128}, request,
      [&](size_t candidate, int64_t length, bool) -> Result<double> {
        if (asked)
          asked->push_back(candidate);
        return std::pair(candidate, length) == slow ? 1.0 : rates[candidate];
      });
  EXPECT_TRUE(static_cast<bool>(result));
  return *result;
}

class Tuning : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() /
             ("heddle-tuning-" + std::to_string(getpid()));
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string write(const std::string &name, const std::string &text) const {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  }
  std::string read(const std::string &name) const {
    std::ostringstream text;
    text << std::ifstream(folder / name).rdbuf();
    return text.str();
  }
  /// Runs heddle-bench on the fake driver; its exit status. What it says is in
  /// the file `said`.
  int run(const std::string &arguments, const char *device = "cuda") const {
    fs::create_directories(folder / "driver");
    const fs::path link = folder / "driver" / "libcuda.so.1";
    if (!fs::exists(link))
      fs::create_symlink(rt::cuda::test::fakeDriverFile(), link);
    const std::string command =
        "LD_LIBRARY_PATH='" + (folder / "driver").string() + "' '" +
        HEDDLE_BENCH + "' --device=" + device + " " + arguments + " > '" +
        (folder / "said").string() + "' 2>&1";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  fs::path folder;
};

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_F(Tuning, TheFastestOfThoseThatBeatTheBaseline) {
  EXPECT_EQ(choose({300, 200, 500, 400}, {}).best, 2u);
  EXPECT_EQ(choose({100, 200, 150, 199}, {}).best, std::nullopt);
  // Slower at one length only.
  EXPECT_EQ(choose({300, 200, 500, 400}, {}, nullptr, {2, 128}).best, 3u);
  // Of the first measurement's best two, which alone go on.
  TuneRequest few;
  few.finalists = 2;
  few.rounds = 2;
  std::vector<size_t> asked;
  TuneResult result = choose({300, 200, 500, 400}, few, &asked);
  EXPECT_EQ(result.best, 2u);
  EXPECT_EQ(asked, (std::vector<size_t>{0, 1, 2, 3, 2, 3, 1, 1, 3, 2, 2, 3, 1,
                                        1, 3, 2}));
  EXPECT_EQ(result.rows.size(), 4u + 2 * 3);
  const std::string table = toTable(four, result);
  EXPECT_PRED2(has, table, "500.0       2.500");
  const auto json = nlohmann::json::parse(toJson(four, result, "a GPU"));
  EXPECT_EQ(json["chosen"], "b");
  EXPECT_EQ(json["benchmarks"].size(), 10u);
  EXPECT_EQ(json["benchmarks"][4]["finalist"], true);
}

TEST_F(Tuning, AFailureEndsIt) {
  auto result =
      chooseTiling(four, {64}, {}, [](size_t candidate, int64_t, bool) {
        return candidate == 2 ? Result<double>(Error("it is gone"))
                              : Result<double>(1.0);
      });
  ASSERT_FALSE(static_cast<bool>(result));
  EXPECT_EQ(result.error().text(), "it is gone");
}

TEST_F(Tuning, CandidatesHaveTheirTablesBesideThem) {
  write("p.json", R"({"wgmma": []})");
  write("a.json", R"({"wgmma": [{"keys": 64}]})");
  const std::string p = (folder / "p.hdl").string(),
                    a = (folder / "a.hdl").string();
  auto good = readCandidates({p, a});
  ASSERT_TRUE(static_cast<bool>(good)) << good.error().text();
  EXPECT_EQ((*good)[0].tiling, "");
  EXPECT_EQ((*good)[1].name, "a");
  EXPECT_EQ((*good)[1].tiling, R"({"keys":64})");
  auto refused = [&](const std::vector<std::string> &bundles) {
    auto result = readCandidates(bundles);
    return result ? std::string("nothing") : result.error().text();
  };
  EXPECT_PRED2(has, refused({a}), "0 have a table without tilings");
  EXPECT_PRED2(has, refused({p}), "a bundle for each candidate");
  EXPECT_PRED2(has, refused({p, p, a}), "2 have a table without tilings");
  EXPECT_PRED2(has, refused({p, (folder / "b.hdl").string()}),
               "is to stand beside it");
  write("b.json", R"({"wgmma": [{}, {}]})");
  EXPECT_PRED2(has, refused({p, (folder / "b.hdl").string()}), "2 tilings");
  for (const char *text :
       {" ", "{", "[]", R"({"wgmma": 1})", R"({"wgmma": [1]})"}) {
    write("b.json", text);
    EXPECT_PRED2(has, refused({p, (folder / "b.hdl").string()}),
                 "expected a table of tilings");
  }
  write("b.json", std::string("{\"wgmma\": [{}]}\0x", 17));
  EXPECT_PRED2(has, refused({p, (folder / "b.hdl").string()}),
               "b.json: a table of tilings: byte 15 is 0, which no JSON has");
}

TEST_F(Tuning, ATableGrows) {
  const std::string path = (folder / "table.json").string();
  for (const char *tiling :
       {R"({"keys":64})", R"({"keys":96})", R"({"keys":64})", R"({"keys":96})"})
    ASSERT_TRUE(static_cast<bool>(addToTable(path, tiling)));
  EXPECT_EQ(nlohmann::json::parse(read("table.json")),
            nlohmann::json::parse(R"({"wgmma":[{"keys":96},{"keys":64}]})"));
  write("table.json", "[]");
  EXPECT_FALSE(static_cast<bool>(addToTable(path, R"({"keys":64})")));
  EXPECT_EQ(read("table.json"), "[]");
}

TEST_F(Tuning, EntriesThatHaveNoKernelLeftGo) {
  auto entry = [](int keys, const std::string &more = "") {
    return R"({"element":"bf16","head_dim":128,"consumers":2,"stages":2,)"
           R"("parts":1,"producer_registers":40,"consumer_registers":232,)"
           R"("keys":)" +
           std::to_string(keys) + more + "}";
  };
  const std::string sums = R"(,"check_sums":true)";
  const std::string path = (folder / "table.json").string();
  auto keys = [&] {
    std::vector<int> found;
    const auto table = nlohmann::json::parse(read("table.json"));
    for (const auto &each : table["wgmma"])
      found.push_back(each["keys"].get<int>());
    return found;
  };
  for (const std::string &tiling :
       {entry(64, R"(,"over":"range")"), entry(80), entry(96, sums)})
    ASSERT_TRUE(static_cast<bool>(addToTable(path, tiling)));
  EXPECT_EQ(keys(), (std::vector<int>{96, 80, 64}));
  ASSERT_TRUE(static_cast<bool>(addToTable(path, entry(128, sums))));
  EXPECT_EQ(keys(), (std::vector<int>{128, 80, 64}));
  ASSERT_TRUE(static_cast<bool>(addToTable(path, entry(112))));
  EXPECT_EQ(keys(), (std::vector<int>{112, 64}));
  EXPECT_TRUE(static_cast<bool>(bundle::tilingsFromJson(read("table.json"))));
  // One for both elements has f16's kernels left behind one for bf16.
  std::string both = entry(48, sums);
  both.erase(both.find(R"("element":"bf16",)"), 17);
  ASSERT_TRUE(static_cast<bool>(addToTable(path, both)));
  ASSERT_TRUE(static_cast<bool>(addToTable(path, entry(32))));
  EXPECT_EQ(keys(), (std::vector<int>{32, 48, 64}));
  EXPECT_TRUE(static_cast<bool>(bundle::tilingsFromJson(read("table.json"))));
  both = entry(16);
  both.erase(both.find(R"("element":"bf16",)"), 17);
  ASSERT_TRUE(static_cast<bool>(addToTable(path, both)));
  EXPECT_EQ(keys(), (std::vector<int>{16, 64}));
}

TEST_F(Tuning, NamesReachTheTerminalWithEscapes) {
  const std::string path = write("a\nerror: b\x1b[2J.json", "[]");
  for (const std::string &option : {"--tune='" + path + "' --bundle=x",
                                    "--bundle='" + path + "' --lengths=64"}) {
    EXPECT_EQ(run(option), 1);
    EXPECT_PRED2(has, read("said"), R"(a\nerror: b\u001b[2J.json: )");
    EXPECT_EQ(read("said").find('\x1b'), std::string::npos);
  }
  const auto result = readCandidates({path});
  ASSERT_FALSE(static_cast<bool>(result));
  EXPECT_PRED2(has, result.error().text(), R"(a\nerror: b\u001b[2J.json)");
}

TEST_F(Tuning, TheToolOnTheFakeDriver) {
  const bundle::Manifest manifest = rt::cuda::test::gpuManifest();
  const std::string section =
      bundle::codeSection(manifest.targets.front(), bundle::CodeForm::Ptx);
  const std::string code(rt::cuda::test::gpuBundle(manifest).section(section));
  std::string bundles;
  for (const char *name : {"portable", "wide"}) {
    const std::string path = (folder / (std::string(name) + ".hdl")).string();
    ASSERT_TRUE(static_cast<bool>(
        bundle::Bundle::write(path, manifest, {{section, code}})));
    bundles += " --bundle='" + path + "'";
  }
  write("portable.json", R"({"wgmma": []})");
  write("wide.json", R"({"wgmma": [{"keys": 128}]})");
  const std::string table = (folder / "table.json").string();
  const std::string asked = "--tune='" + table + "'" + bundles +
                            " --heads=4 --kv-heads=2 --seconds=0.001 "
                            "--rounds=2 --lengths=40,33 --dtype=bf16 ";
  ASSERT_EQ(run(asked + "--kernel=columns --json='" +
                (folder / "rates.json").string() + "'"),
            0)
      << read("said");
  EXPECT_PRED2(has, read("said"), "2 rounds");
  const auto json = nlohmann::json::parse(read("rates.json"));
  ASSERT_EQ(json["benchmarks"].size(), 2u + 2 * 2);
  for (const auto &row : json["benchmarks"])
    EXPECT_GT(row["tflops"], 0.0);
  // Which of two kernels that do nothing is faster is chance.
  if (json["chosen"] == "wide")
    EXPECT_EQ(nlohmann::json::parse(read("table.json")),
              nlohmann::json::parse(R"({"wgmma":[{"keys":128}]})"));
  else
    EXPECT_FALSE(fs::exists(table));

  EXPECT_EQ(run(asked), 1);
  EXPECT_PRED2(has, read("said"), "say which by --kernel");
  // What could not be written later is said before the measurements.
  write("table.json", "[]");
  fs::remove(folder / "rates.json");
  EXPECT_EQ(run(asked + "--kernel=columns --json='" +
                (folder / "rates.json").string() + "'"),
            1);
  EXPECT_PRED2(has, read("said"), "expected a table of tilings");
  EXPECT_FALSE(fs::exists(folder / "rates.json"));
  EXPECT_EQ(run("--tune='" + std::string(300, 'x') + "'" + bundles), 1);
  EXPECT_PRED2(has, read("said"), "File name too long");
  fs::remove(table);
  EXPECT_EQ(run(asked + "--kernel=none"), 1);
  EXPECT_PRED2(has, read("said"), "no kernel's name starts with 'none'");
  EXPECT_EQ(run(asked + "--rows=4"), 2);
  EXPECT_PRED2(has, read("said"), "has nothing to do with --tune");
  EXPECT_EQ(run("--rounds=2" + bundles), 2);
  EXPECT_PRED2(has, read("said"), "give --tune too");
  EXPECT_EQ(run("--tune=t.json --seconds=nan" + bundles), 2);
  EXPECT_PRED2(has, read("said"), "'nan' is no number of seconds");
  for (const char *option : {"--rows", "--tune", "--finalists", "--seconds"}) {
    EXPECT_EQ(run(option + ("=1" + bundles), "cpu"), 2);
    EXPECT_PRED2(has, read("said"), option + std::string(" is for GPUs"));
  }
}
