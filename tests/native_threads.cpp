// Teams at work, for the thread sanitizer: `make sanitize-threads`. Callers of several threads share
// teams of several sizes, which come and go; results are compared with those of one thread.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "../ChatTTS/model/kernels/cpu/kernels.cpp"
#include "native_amx.h"

namespace {

constexpr int kOutputs = 150, kInputs = 67, kRows = 9, kLogits = 200, kCallers = 3;

struct Case {
  std::vector<float> weight, rows, logits;

  Case() : weight(kOutputs * kInputs), rows(kRows * kInputs), logits(kRows * kLogits) {
    std::mt19937 numbers(1);
    std::normal_distribution<float> normal;
    for (auto* values : {&weight, &rows, &logits})
      for (float& x : *values) x = normal(numbers);
  }

  // Everything that a team gives for it.
  std::vector<float> compute(void* team, int kind) const {
    std::vector<char> packed(chattts_matrix_bytes(kind, kOutputs, kInputs));
    chattts_pack(team, kind, weight.data(), kOutputs, kInputs, packed.data());
    std::vector<float> out(kRows * kOutputs + kRows), temperatures(kRows, 1.0f);
    chattts_product(team, kind, rows.data(), kRows, packed.data(), kOutputs, kInputs, out.data());
    std::vector<NativeDraw> draws(kRows);
    for (NativeDraw& draw : draws) {
      draw = {};
      draw.top_p = draw.penalty = 1;
      draw.top_k = 20;
      draw.forbidden = -1;
    }
    std::vector<int32_t> ids(kRows);
    chattts_sample(team, logits.data(), kRows, 1, kLogits, draws.data(), temperatures.data(),
                    ids.data(), out.data() + kRows * kOutputs);
    out.insert(out.end(), ids.begin(), ids.end());
    return out;
  }
};

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

// Members that the system keeps away delay nothing, and do nothing twice when they come.
void check_absent_members() {
  constexpr int kPhases = 100, kTasks = 10;
  Team team(3);
  std::atomic<int> done{0};
  std::atomic<bool> over{false};
  team.run([&](Team::Member& member) {
    while (member.rank != 0 && !over) std::this_thread::yield();
    for (int i = 0; i < kPhases; ++i) {
      member.each(kTasks, [&](int) { ++done; });
      member.caller_alone([&] { check(done == (i + 1) * kTasks, "a phase began too early"); });
    }
    over = true;
  });
  check(done == kPhases * kTasks, "a task was done twice");
}

}  // namespace

int main() {
  ask_for_amx();
  check_absent_members();
  const Case given;
  for (int kind : {kFloat32, kBfloat16, kInt8}) {
    void* alone = chattts_team(1);
    const std::vector<float> expected = given.compute(alone, kind);
    chattts_dismiss(alone);
    for (int size : {1, 2, 3, 5}) {
      void* idle = chattts_team(size);
      void* team = chattts_team(size);
      std::vector<std::thread> callers;
      for (int i = 0; i < kCallers; ++i)
        callers.emplace_back([&] {
          for (int round = 0; round < 20; ++round)
            check(given.compute(team, kind) == expected, "another result");
        });
      for (std::thread& caller : callers) caller.join();
      chattts_dismiss(team);
      chattts_dismiss(idle);
    }
  }
  std::puts("the teams' threads: nothing found");
}
