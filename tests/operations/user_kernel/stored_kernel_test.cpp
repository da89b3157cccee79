// SPDX-License-Identifier: MIT
// Databases that mix kernels of users with swr's own operations, read by programs that have no
// spec.
#include "core/json.h"
#include "core/operation.h"
#include "db/history.h"
#include "kernel_spec/spec/kernel_plan.h"
#include "tests/db/fixtures.h"
#include "tests/operations/user_kernel/user_kernel_case.h"
#include "tests/tuner/cli/program_fixture.h"
#include <swr/device.h>
#include <swr/lookup.h>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

namespace swr {
namespace {

namespace fs = std::filesystem;

class StoredKernel : public test::ProgramFixture {
 protected:
  /// A file with a result of the kernel and one of attention.
  std::string mixed(const std::string& name, const Operation& kernel, double median_us) const {
    Store store(path(name), Store::Mode::read_write);
    const long long run = store.begin_run(some_run());
    const Problem problem = kernel_problem(kernel, {{"n", 5000}});
    store.record(run, problem, device_,
                 measured(kernel.default_variant(problem, device_), median_us));
    store.record(run, problem_of(4096), device_, measured(tile(64, 64), median_us));
    return path(name);
  }

  static void edit(const std::string& file, const std::string& sql) {
    SQLite::Database(file, SQLite::OPEN_READWRITE).exec(sql);
  }

  DeviceInfo device_ = profiled_device("h200");
  const Operation& scale_ = register_kernel(test::scale_spec("stored_scale"));
};

TEST_F(StoredKernel, IsAnsweredByTheObjectiveOfItsSpec) {
  const fs::path examples = SWR_KERNEL_EXAMPLES;
  Json edited = Json::parse(bytes_of(examples / "vector_add.json"));
  edited["objective"] = "energy";
  fs::copy_file(examples / "vector_add.cu", path("vector_add.cu"));
  const std::string spec = path("vector_add.json");
  std::ofstream(spec) << edited;
  const Operation& kernel = register_kernel(read_kernel_spec(spec));
  const Problem problem = kernel.default_problem();
  const Variant fast = parse_variant(kernel, "block_size_x=256");
  const Variant frugal = parse_variant(kernel, "block_size_x=128");
  const std::string file = path("frugal.db");
  {
    Store store(file, Store::Mode::read_write);
    const long long run = store.begin_run(some_run());
    store.record(run, problem, device_, measured(fast, 10.0));
    store.record(run, problem, device_, measured(frugal, 12.0));
    const auto stored = store.results(problem, device_);
    const auto chosen =
        std::ranges::find(stored, frugal, [](const auto& one) { return one.result.variant; });
    store.record_choice(run, problem, device_, "energy", std::array{RankedResult{chosen->id}},
                        0.01);
  }
  const test::Arguments ask = "query --gpu h200 --spec " + spec + " --db " + file;
  EXPECT_THAT(run(ask), HasSubstr("block_size_x=128"));
  EXPECT_THAT(run(ask + "--objective time"), HasSubstr("block_size_x=256"));
  const auto nothing = result_of(ask + "--objective edp");
  EXPECT_NE(nothing.exit_code, 0);
  EXPECT_THAT(nothing.err, HasSubstr("--objective time"));
}

KernelSpec other_version() {
  KernelSpec spec = test::scale_spec("stored_scale");
  spec.constraints.emplace_back("block_size_x < 2048");
  return spec;
}

TEST_F(StoredKernel, IsQueriedAndExplainedByItsName) {
  const std::string file = mixed("one.db", scale_, 10.0);
  for (const std::string& op : {std::string("stored_scale"), std::string(scale_.name())}) {
    const std::string found = run("query --op " + op + " --arg n=5000 --gpu h200 --db " + file);
    EXPECT_THAT(found, AllOf(HasSubstr("match    exact"), HasSubstr("block_size_x=64")));
  }
  const auto near = result_of("query --op stored_scale --arg n=9000 --gpu h200 --db " + file);
  EXPECT_THAT(near.out, HasSubstr("match    nearest")) << near.err;
  run("query --seq 4096 --heads 8 --gpu h200 --db " + file);
  const std::string explained =
      run("explain --op stored_scale --arg n=5000 --gpu h200 --db " + file);
  EXPECT_THAT(explained, HasSubstr("stored_scale n=5000"));
}

TEST_F(StoredKernel, IsReportedAndExported) {
  const std::string file = mixed("one.db", scale_, 10.0);
  const std::string reported = run("report --out " + path("report.html") + " --db " + file);
  EXPECT_THAT(reported, HasSubstr("wrote 2 tuned shapes"));
  const std::string exported =
      run("export --op stored_scale --out " + path("out") + " --db " + file);
  EXPECT_THAT(exported, HasSubstr("wrote 1 kernel"));
}

/// Nothing that depends on them is a number then.
TEST_F(StoredKernel, WithoutFlopsAndBytesIsAnsweredAndExplained) {
  KernelSpec silent = test::scale_spec("silent");
  silent.flops = silent.bytes = "";
  KernelSpec absurd = test::scale_spec("absurd");
  absurd.flops = absurd.bytes = "n ** 9";
  for (const KernelSpec& spec : {silent, absurd}) {
    const Operation& kernel = register_kernel(spec);
    const std::string file = mixed(spec.name + ".db", kernel, 10.0);
    const Answer near = Lookup(file).best(kernel_problem(kernel, {{"n", 9000}}), device_);
    EXPECT_EQ(near.level, MatchLevel::nearest);
    EXPECT_FALSE(near.time_us);
    const std::string of_it = " --op " + spec.name + " --arg n=5000 --gpu h200 --db " + file;
    EXPECT_THAT(run("explain" + of_it),
                AllOf(HasSubstr("says no flops and bytes"), Not(HasSubstr("gap of - times")),
                      Not(ContainsRegex("GB/s|-[0-9]+ %"))));
    EXPECT_TRUE(Json::parse(run("explain --json" + of_it))["roofline"].is_null());
    run("db export-csv --out " + path(spec.name) + " --db " + file);
    for (const auto& csv : fs::directory_iterator(path(spec.name))) {
      EXPECT_THAT(bytes_of(csv.path()), Not(HasSubstr("nan")));
    }
    EXPECT_THAT(run("report --out " + path("silent.html") + " --db " + file),
                HasSubstr("wrote 2 tuned shapes"));
  }
}

TEST_F(StoredKernel, ThatIncludesAFileBringsItNowhere) {
  const std::string secret = directory_.write("secret", "password = hunter2 ;\n").string();
  KernelSpec spec = test::scale_spec("curious");
  spec.source = "#define S(...) #__VA_ARGS__\n__constant__ const char s[] = S(\n#include \"" +
                secret + "\"\n);\n" + spec.source;
  const std::string file = mixed("curious.db", register_kernel(spec), 10.0);
  const auto exported = result_of("export --op curious --out " + path("out") + " --db " + file);
  EXPECT_EQ(exported.exit_code, 1);
  EXPECT_THAT(exported.err, AllOf(HasSubstr("cannot open source file"), Not(HasSubstr("hunter2"))));
  EXPECT_FALSE(fs::exists(path("out/manifest.json")));
}

TEST_F(StoredKernel, IsKnownAmongHundredsWithoutResults) {
  const std::string file = mixed("crowd.db", scale_, 10.0);
  SQLite::Database database(file, SQLite::OPEN_READWRITE);
  database.exec("BEGIN");
  for (int i = 0; i < 300; ++i) {
    const kernel_spec::KernelPlan plan(test::scale_spec("z" + std::to_string(i)));
    SQLite::Statement row(database, "INSERT INTO kernel (op, spec_digest, spec) VALUES (?, ?, ?)");
    row.bind(1, plan.spec().name + "_" + plan.digest().substr(0, 8));
    row.bind(2, plan.digest());
    row.bind(3, plan.text());
    row.exec();
  }
  database.exec("COMMIT");
  const auto found = result_of("query --op stored_scale --arg n=5000 --gpu h200 --db " + file);
  EXPECT_THAT(found.out, HasSubstr("match    exact")) << found.err;
  run(std::string("kernel " SWR_KERNEL_EXAMPLES "/vector_add.json --gpu h200 --enumerate --db ") +
      file);
}

TEST_F(StoredKernel, PackagesHaveNamesThatCompile) {
  const auto package_of = [&](const KernelSpec& spec) {
    const std::string file = mixed(spec.name + ".db", register_kernel(spec), 10.0);
    fs::remove_all(path("package"));
    return result_of("export --format cpp --name p --op " + spec.name + " --out " +
                     path("package") + " --db " + file);
  };
  for (const char* const name :
       {"loaded_kernels", "user_spec", "NULL", "CUstream", "Choice", "impl", "EINVAL"}) {
    EXPECT_EQ(package_of(test::scale_spec(name)).exit_code, 0);
    EXPECT_THAT(bytes_of(path("package/include/p/") + name + ".h"),
                ContainsRegex("class [A-Za-z]+Of "))
        << name;
  }
  mixed("words.db", register_kernel(test::scale_spec("two_words")), 10.0);
  const std::string both = mixed("words.db", register_kernel(test::scale_spec("TwoWords")), 10.0);
  const auto alike =
      result_of("export --format cpp --name p --out " + path("both") + " --db " + both);
  EXPECT_EQ(alike.exit_code, 2);
  EXPECT_THAT(alike.err, HasSubstr("has a class TwoWords already"));
  KernelSpec macros = test::scale_spec("macros");
  macros.arguments[2].name = "INT_MAX";
  EXPECT_EQ(package_of(macros).exit_code, 0);
  EXPECT_THAT(bytes_of(path("package/include/p/macros.h")),
              AllOf(HasSubstr("#undef INT_MAX\n"), HasSubstr("#pragma pop_macro(\"INT_MAX\")")));
  for (const char* const name : {"co_await", "concept", "errno", "linux", "_Pragma", "arguments"}) {
    KernelSpec spec = test::scale_spec(std::string("with_") + name);
    spec.arguments[2].name = name;
    const auto refused = package_of(spec);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr(std::string("argument ") + name)) << name;
  }
}

/// A package is compiled and run on the host.
TEST_F(StoredKernel, BringsNoCodeIntoAPackage) {
  KernelSpec spec = test::scale_spec("lines");
  spec.summary = "one\nint injected;\n";
  spec.arguments[0].size = "n + 0 * len('\nint injected; //')";
  spec.arguments[1].type = "const float\n*";
  const std::string file = mixed("lines.db", register_kernel(spec), 10.0);
  run("export --format cpp --name p --op lines --out " + path("package") + " --db " + file);
  const std::string header = bytes_of(path("package/include/p/lines.h"));
  ASSERT_THAT(header, HasSubstr("class Lines {"));
  std::istringstream lines(header);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_THAT(line, AnyOf(HasSubstr("///"), Not(ContainsRegex("injected|^[*]"))));
  }
}

TEST_F(StoredKernel, VersionsOfOneNameStayApart) {
  const Operation& other = register_kernel(other_version());
  ASSERT_NE(&other, &scale_);
  const std::string a = mixed("a.db", scale_, 10.0);
  const std::string b = mixed("b.db", other, 20.0);
  run("db merge --out " + path("all.db") + " --from " + a + " " + b);
  SQLite::Database all(path("all.db"), SQLite::OPEN_READONLY);
  EXPECT_EQ(all.execAndGet("SELECT count(DISTINCT spec_digest) FROM kernel").getInt(), 2);
  for (const Operation* const kernel : {&scale_, &other}) {
    const std::string name(kernel->name());
    EXPECT_EQ(all.execAndGet("SELECT count(*) FROM \"" + name + "_results\"").getInt(), 1);
    const auto found =
        result_of("query --op " + name + " --arg n=5000 --gpu h200 --db " + path("all.db"));
    EXPECT_THAT(found.out, HasSubstr(kernel == &scale_ ? "expected 10" : "expected 20"))
        << found.err;
  }
}

TEST_F(StoredKernel, OfAConvertedFileIsLeftOutUntilItsSpecIsKnown) {
  const std::string file = mixed("one.db", scale_, 10.0);
  edit(file,
       "DELETE FROM kernel");  // Files before schema 15 had no specs: the converter adds names.
  edit(file, "INSERT INTO kernel (op) VALUES ('" + std::string(scale_.name()) + "')");
  const auto reported = result_of("report --out " + path("report.html") + " --db " + file);
  EXPECT_EQ(reported.exit_code, 0) << reported.err;
  EXPECT_THAT(reported.out, HasSubstr("wrote 1 tuned shape "));
  EXPECT_THAT(reported.err, HasSubstr("has results of " + std::string(scale_.name())));
  const auto attention = result_of("query --seq 4096 --heads 8 --gpu h200 --db " + file);
  EXPECT_THAT(attention.out, HasSubstr("match    exact")) << attention.err;
  run("db merge --out " + path("all.db") + " --from " + file);
  EXPECT_THAT(read_history(path("all.db")).places, SizeIs(2));  // This process knows the kernel.
  mixed("all.db", scale_, 11.0);
  const auto known = result_of("report --out " + path("report.html") + " --db " + path("all.db"));
  EXPECT_THAT(known.out, HasSubstr("wrote 2 tuned shapes")) << known.err;
}

TEST_F(StoredKernel, WithAnotherSpecThanItsDigestIsRefused) {
  const std::string file = mixed("one.db", scale_, 10.0);
  edit(file, "UPDATE kernel SET spec = replace(spec, 'factor * x', 'factor + x'), digest = NULL");
  const auto found = result_of("query --op stored_scale --gpu h200 --db " + file);
  EXPECT_NE(found.exit_code, 0);
  EXPECT_THAT(found.err, AllOf(HasSubstr("table kernel"), HasSubstr("the spec is not of")));
}

TEST_F(StoredKernel, RestoredFromItsTextIsEqual) {
  for (KernelSpec spec : {test::scale_spec("stored_scale"), other_version()}) {
    spec.source += "// \xff is no UTF-8\n";
    spec.dialect = SpecDialect::c;
    spec.constraints = {"block_size_x <= 64 || split == 1"};
    spec.reference = spec.steps;
    spec.reference_parameters = {{"block_size_x", "32"}};
    spec.lists = {{"lengths", {"n", "2 * n"}}};
    spec.defines = {{"TWICE", "2 * n"}};
    const kernel_spec::KernelPlan plan(spec);
    const kernel_spec::KernelPlan again(kernel_spec::read_stored_text(plan.text()));
    EXPECT_EQ(again.digest(), plan.digest());
    EXPECT_EQ(again.text(), plan.text());
  }
}

}  // namespace
}  // namespace swr
