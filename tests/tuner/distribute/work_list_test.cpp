// SPDX-License-Identifier: MIT
// How work is listed and divided among GPUs and hosts.
#include "tuner/distribute/work_list.h"

#include "tests/support/test.h"

namespace swr {
namespace {

using ::testing::_;
using ::testing::IsSupersetOf;

class WorkListTest : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name.c_str()) << text;
    return directory_ / name.c_str();
  }

  template <typename Action>
  static std::string error_of(Action&& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  TempDirectory directory_;
};

std::vector<std::string> texts(const std::vector<Problem>& problems) {
  std::vector<std::string> texts;
  for (const Problem& problem : problems) {
    texts.push_back(to_string(problem));
  }
  return texts;
}

TEST_F(WorkListTest, ReadsShapesOfATextFile) {
  const auto path = file("shapes.txt",
                         "# prefill\n"
                         "seq=1024,2048 heads=32 kv-heads=8 head-dim=128 dtype=bf16 causal\n"
                         "\n"
                         "seq=1 seq-kv=4096 batch=2,4 causal=false  # decode\n");
  EXPECT_THAT(
      texts(read_shapes(path)),
      ElementsAre("attention b1 h32/8 s1024/1024 d128 bf16 causal",
                  "attention b1 h32/8 s2048/2048 d128 bf16 causal",
                  "attention b2 h1/1 s1/4096 d64 fp16", "attention b4 h1/1 s1/4096 d64 fp16"));
}

TEST_F(WorkListTest, ReadsShapesOfGemmAndKeepsThemInAList) {
  const auto path = file("gemm.txt",
                         "op=gemm m=1,4096 n=14336 k=4096 dtype=bf16\n"
                         "op=gemm m=8 n=8 k=8 layout=tn output=fp32 reads-c batch=3\n"
                         "seq=64\n");
  const std::vector<Problem> problems = read_shapes(path);
  EXPECT_THAT(
      texts(problems),
      ElementsAre("gemm b1 m1 n14336 k4096 bf16 nt bf16", "gemm b1 m4096 n14336 k4096 bf16 nt bf16",
                  "gemm b3 m8 n8 k8 fp16 tn fp32 beta", "attention b1 h1/1 s64/64 d64 fp16"));
  std::ostringstream list;
  write_work_list(list, problems);
  EXPECT_EQ(read_work_list(file("work.json", list.str())), problems);
}

TEST_F(WorkListTest, ReadsTheSameShapesOfAJsonFile) {
  const auto path = file("shapes.json",
                         R"([{"seq": "1024,2048", "heads": 32, "kv_heads": 8, "head_dim": 128,
                              "dtype": "bf16", "causal": true},
                             {"seq": 1, "seq-kv": 4096, "batch": 2}])");
  EXPECT_THAT(texts(read_shapes(path)),
              ElementsAre("attention b1 h32/8 s1024/1024 d128 bf16 causal",
                          "attention b1 h32/8 s2048/2048 d128 bf16 causal",
                          "attention b2 h1/1 s1/4096 d64 fp16"));
}

TEST_F(WorkListTest, NamesTheShapeThatIsWrong) {
  const auto error_in = [&](const std::string& text) {
    const auto path = file("shapes.txt", "seq=64\n" + text + "\n");
    return error_of([&] { read_shapes(path); });
  };
  EXPECT_THAT(error_in("heads=4"), AllOf(HasSubstr("line 2"), HasSubstr("seq is missing")));
  EXPECT_THAT(error_in("seq=64 length=3"), HasSubstr("unknown key 'length'"));
  EXPECT_THAT(error_in("seq=64 seq=65"), HasSubstr("twice"));
  EXPECT_THAT(error_in("seq=64x"), HasSubstr("64x"));
  EXPECT_THAT(error_in("seq="), HasSubstr("no value"));
  EXPECT_THAT(error_in("seq=64 causal=maybe"), HasSubstr("maybe"));
  EXPECT_THAT(error_in("seq=64 heads=6 kv-heads=4"), HasSubstr("line 2"));
  EXPECT_THAT(error_of([&] { read_shapes(file("none.txt", "# nothing\n")); }),
              HasSubstr("no shape"));
  EXPECT_THAT(error_of([&] { read_shapes(file("bad.json", "[3]")); }), HasSubstr("shape 1"));
  EXPECT_THAT(error_of([&] { read_shapes(directory_ / "absent.txt"); }), HasSubstr("absent.txt"));
}

/// Prompts and decoding steps.
TEST_F(WorkListTest, AModelPosesItsProjectionsMergedAsServersMergeThem) {
  const std::string llama = R"("num_attention_heads": 32, "num_key_value_heads": 8,
      "hidden_size": 4096, "intermediate_size": 14336, "hidden_act": "silu",
      "vocab_size": 128256, "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16")";
  const auto config = file("llama.json", "{" + llama + "}");
  EXPECT_THAT(
      texts(read_model(config, {.lengths = {1024}, .batches = {2}})),
      ElementsAre(
          "attention b2 h32/8 s1024/1024 d128 bf16 causal", "gemm b1 m2 n6144 k4096 bf16 nt bf16",
          "gemm b1 m2 n4096 k4096 bf16 nt bf16", "gemm b1 m2 n28672 k4096 bf16 nt bf16",
          "gemm b1 m2 n4096 k14336 bf16 nt bf16", "gemm b1 m2048 n6144 k4096 bf16 nt bf16",
          "gemm b1 m2048 n4096 k4096 bf16 nt bf16", "gemm b1 m2048 n28672 k4096 bf16 nt bf16",
          "gemm b1 m2048 n4096 k14336 bf16 nt bf16", "gemm b1 m2 n128256 k4096 bf16 nt bf16"));
  const auto endless = [&] { read_model(config, {.lengths = {1 << 24}, .batches = {1 << 20}}); };
  EXPECT_THAT(error_of(endless), HasSubstr("llama.json"));
}

/// The names of Mixtral, Qwen3 and gpt-oss, and of DeepSeek with its shared experts and dense
/// layers.
TEST_F(WorkListTest, AModelPosesTheProductsOfItsExperts) {
  const auto gemms = [&](const std::string& sizes) {
    const auto config = file("experts.json", R"({"num_attention_heads": 32, "head_dim": 128,
        "hidden_act": "silu", "dtype": "bfloat16", )" +
                                                 sizes + "}");
    std::vector<std::string> notes;
    auto found = texts(read_model(config, {.lengths = {1024}, .notes = &notes}));
    EXPECT_THAT(notes, IsEmpty());
    std::erase_if(found, [](const std::string& text) { return !text.starts_with("gemm"); });
    return std::vector(found.begin() + 2, found.end());  // Without those of attention.
  };
  EXPECT_THAT(gemms(R"("hidden_size": 4096, "intermediate_size": 14336, "num_local_experts": 8,
                       "num_experts_per_tok": 2)"),
              ElementsAre("gemm b8 m1 n28672 k4096 bf16 nt bf16 offsets",
                          "gemm b8 m1 n4096 k14336 bf16 nt bf16 offsets", _, _,
                          "gemm b8 m256 n28672 k4096 bf16 nt bf16 offsets",
                          "gemm b8 m256 n4096 k14336 bf16 nt bf16 offsets"));
  EXPECT_THAT(gemms(R"("hidden_size": 2048, "intermediate_size": 6144, "num_experts": 128,
                       "num_experts_per_tok": 8, "moe_intermediate_size": 768,
                       "decoder_sparse_step": 1, "mlp_only_layers": [])"),
              ElementsAre(_, _, _, _, "gemm b128 m64 n1536 k2048 bf16 nt bf16 offsets",
                          "gemm b128 m64 n2048 k768 bf16 nt bf16 offsets"));
  EXPECT_THAT(gemms(R"("hidden_size": 2880, "intermediate_size": 2880, "num_local_experts": 32,
                       "experts_per_token": 4)"),
              ElementsAre(_, _, _, _, "gemm b32 m128 n5760 k2880 bf16 nt bf16 offsets",
                          "gemm b32 m128 n2880 k2880 bf16 nt bf16 offsets"));
  EXPECT_THAT(gemms(R"("hidden_size": 2048, "intermediate_size": 10944, "n_routed_experts": 64,
                       "num_experts_per_tok": 6, "moe_intermediate_size": 1408,
                       "n_shared_experts": 2, "first_k_dense_replace": 1)"),
              AllOf(SizeIs(14), IsSupersetOf({"gemm b1 m1024 n21888 k2048 bf16 nt bf16",
                                              "gemm b1 m1024 n5632 k2048 bf16 nt bf16",
                                              "gemm b64 m128 n2816 k2048 bf16 nt bf16 offsets"})));
}

TEST_F(WorkListTest, SaysWhichWordsOfExpertsItDoesNotKnow) {
  const auto config = file("ernie.json", R"({"num_attention_heads": 20, "hidden_size": 2560,
      "intermediate_size": 12288, "moe_num_experts": 64, "moe_k": 6, "moe_dropout": 0.0})");
  std::vector<std::string> notes;
  const auto found = texts(read_model(config, {.lengths = {1024}, .notes = &notes}));
  EXPECT_THAT(notes, ElementsAre(AllOf(HasSubstr("moe_num_experts, moe_k say"),
                                       HasSubstr("groups=offsets"))));
  EXPECT_THAT(found, Not(Contains(HasSubstr("12288"))));
  const auto few = file("few.json", R"({"num_attention_heads": 20, "hidden_size": 2560,
      "intermediate_size": 12288, "num_local_experts": 8})");
  read_model(few, {.lengths = {1024}, .notes = &notes});
  EXPECT_THAT(notes, ElementsAre(_, HasSubstr("num_local_experts say")));
}

TEST_F(WorkListTest, ReadsAModelsConfiguration) {
  const auto path = file("config.json",
                         R"({"num_attention_heads": 32, "num_key_value_heads": 8,
                             "head_dim": 128, "torch_dtype": "bfloat16"})");
  EXPECT_THAT(texts(read_model(path, {.lengths = {512, 8192}, .batches = {1, 4}, .causal = true})),
              ElementsAre("attention b1 h32/8 s512/512 d128 bf16 causal",
                          "attention b4 h32/8 s512/512 d128 bf16 causal",
                          "attention b1 h32/8 s8192/8192 d128 bf16 causal",
                          "attention b4 h32/8 s8192/8192 d128 bf16 causal"));
  const auto nested =
      file("nested.json", R"({"text_config": {"num_attention_heads": 16, "head_dim": 256}})");
  EXPECT_THAT(texts(read_model(nested, {.lengths = {64}, .dtype = DType::bf16})),
              ElementsAre("attention b1 h16/16 s64/64 d256 bf16"));
}

TEST_F(WorkListTest, SaysWhatAConfigurationLacks) {
  const auto error_in = [&](const std::string& text) {
    const auto path = file("config.json", text);
    return error_of([&] { read_model(path, {.lengths = {64}}); });
  };
  EXPECT_THAT(error_in("{}"), HasSubstr("num_attention_heads"));
  EXPECT_THAT(error_in("[]"), HasSubstr("config.json"));
  EXPECT_THAT(error_in("{"), HasSubstr("not JSON"));
  EXPECT_THAT(error_in(R"({"num_attention_heads": 3})"), HasSubstr("hidden_size"));
  EXPECT_THAT(error_in(R"({"num_attention_heads": 3, "hidden_size": 64})"),
              HasSubstr("no multiple"));
  EXPECT_THAT(error_in(R"({"num_attention_heads": "3", "hidden_size": 64})"),
              HasSubstr("num_attention_heads"));
}

/// Each ended the process, by its stack or by the time that looking for keys took.
TEST_F(WorkListTest, RefusesFilesThatNestWithoutEndOrRepeatKeys) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const auto shapes = file("shapes.json", "[{\"seq\":" + deep + "}]");
  EXPECT_THAT(error_of([&] { read_shapes(shapes); }),
              AllOf(HasSubstr("shapes.json"), HasSubstr("deep")));
  const auto work = file("work.json", "{\"format\":" + deep + "}");
  EXPECT_THAT(error_of([&] { read_work_list(work); }), HasSubstr("deep"));
  const auto model = file("config.json", "{\"num_attention_heads\":" + deep + "}");
  EXPECT_THAT(error_of([&] { read_model(model, {.lengths = {64}}); }), HasSubstr("deep"));
  const auto twice = file("twice.json", R"([{"seq": 64, "seq": 128}])");
  EXPECT_THAT(error_of([&] { read_shapes(twice); }), HasSubstr("'seq' twice"));
}

TEST_F(WorkListTest, RefusesMoreProblemsThanAnyListNeeds) {
  std::string numbers = "1";
  for (int i = 0; i < 20'000; ++i) {
    numbers += ",1";
  }
  const auto shapes = file("shapes.txt", "seq=" + numbers + " batch=" + numbers + "\n");
  EXPECT_THAT(error_of([&] { read_shapes(shapes); }), HasSubstr("more than 1000000 problems"));
  const std::string line = "seq=" + numbers + "\n";  // 20,001 problems
  std::string many;
  for (int i = 0; i < 50; ++i) {
    many += line;
  }
  EXPECT_THAT(error_of([&] { read_shapes(file("sum.txt", many)); }),
              AllOf(HasSubstr("line 50"), HasSubstr("more than 1000000 problems")));
}

TEST_F(WorkListTest, AListComesBackAsItWasWritten) {
  const auto shapes = file("shapes.txt", "seq=64,128,64 heads=4\nseq=128 heads=4\n");
  const auto problems = without_repeats(read_shapes(shapes));
  EXPECT_EQ(problems.size(), 2U);
  {
    std::ofstream out(directory_ / "work.json");
    write_work_list(out, problems);
  }
  EXPECT_EQ(read_work_list(directory_ / "work.json"), problems);
  for (const char* bad : {"{}", "[", R"({"format": "swr-work", "version": 2, "problems": []})",
                          R"({"format": "swr-work", "version": 1, "problems": []})",
                          R"({"format": "swr-work", "version": 1, "problems": [{"batch": 0}]})"}) {
    const auto path = file("bad.json", bad);
    EXPECT_THAT(error_of([&] { read_work_list(path); }), HasSubstr("bad.json")) << bad;
  }
}

std::vector<std::string> work_of(int pieces) {
  std::vector<std::string> work;
  for (int i = 0; i < pieces; ++i) {
    work.push_back("attention s" + std::to_string(64 * (i + 1)));
  }
  return work;
}

TEST(Shard, EveryPieceIsInOneShareAndSharesDifferByOneAtMost) {
  for (const int pieces : {0, 1, 7, 16, 100}) {
    for (const int count : {1, 2, 3, 8, 30}) {
      std::set<std::size_t> dealt;
      for (int index = 0; index < count; ++index) {
        const auto share = share_of(work_of(pieces), {index, count});
        EXPECT_GE(static_cast<int>(share.size()), pieces / count);
        EXPECT_LE(static_cast<int>(share.size()), pieces / count + 1);
        EXPECT_TRUE(std::ranges::is_sorted(share));
        for (const std::size_t place : share) {
          EXPECT_TRUE(dealt.insert(place).second);
        }
      }
      EXPECT_EQ(static_cast<int>(dealt.size()), pieces);
    }
  }
}

TEST(Shard, DealsThePiecesWhateverTheirOrderInTheList) {
  const auto work = work_of(20);
  auto reversed = work;
  std::ranges::reverse(reversed);
  std::set<std::string> share;
  std::set<std::string> reversed_share;
  for (const std::size_t place : share_of(work, {2, 6})) {
    share.insert(work[place]);
  }
  for (const std::size_t place : share_of(reversed, {2, 6})) {
    reversed_share.insert(reversed[place]);
  }
  EXPECT_EQ(share, reversed_share);
}

TEST(Shard, DealsTheSameOnEveryHostAndRelease) {
  EXPECT_THAT(share_of(work_of(10), {0, 3}), ElementsAre(0, 2, 4, 7));
}

TEST(Shard, ReadsAndWritesItsText) {
  EXPECT_EQ(to_string(parse_shard("3/8")), "3/8");
  EXPECT_TRUE(parse_shard("0/1").is_everything());
  for (const char* bad : {"", "3", "8/8", "-1/8", "1/0", "a/2", "1/2/3", "1/", "/2", "1 /2",
                          "0/99999999999", "0/2000000"}) {
    EXPECT_THROW(parse_shard(bad), Error) << bad;
  }
}

TEST(Shard, NamesTheDatabaseOfAWorker) {
  EXPECT_EQ(shard_database("results/tuned.db", {3, 8}), "results/tuned.3-of-8.db");
  EXPECT_EQ(shard_database("tuned", {3, 16}), "tuned.03-of-16");
  EXPECT_EQ(shard_database("results/", {0, 2}), "results/tuned.0-of-2.db");
  EXPECT_EQ(shard_database("/tmp", {0, 2}), "/tmp/tuned.0-of-2.db");
  EXPECT_EQ(shard_database("results/tuned.db", {}), "results/tuned.db");
  EXPECT_EQ(shard_database("/tmp", {}), "/tmp/tuned.db");
}

}  // namespace
}  // namespace swr
