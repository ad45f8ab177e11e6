// Checks a prebuilt library of CPU kernels on its own system, or in an emulator of it, where there
// is no Python: `make test-prebuilt`. Products are compared with sums in double, and their bits
// between batches and between teams. A small Llama with weights of eight bits speaks: each library
// prints a hash of its codes and hidden states, and all of them must print the same.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "../ChatTTS/model/kernels/cpu/llama.h"
#include "../ChatTTS/model/kernels/cpu/sampler.h"
#include "native_amx.h"

#ifdef _WIN32
#include <windows.h>
static void* open_library(const char* path) { return (void*)LoadLibraryA(path); }
static void* find(void* library, const char* name) {
  return (void*)GetProcAddress((HMODULE)library, name);
}
#else
#include <dlfcn.h>
static void* open_library(const char* path) { return dlopen(path, RTLD_NOW); }
static void* find(void* library, const char* name) { return dlsym(library, name); }
#endif

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

template <class Function>
Function* function(void* library, const char* name) {
  void* found = find(library, name);
  check(found != nullptr, name);
  return reinterpret_cast<Function*>(found);
}

struct Kernels {
  explicit Kernels(void* library)
      : build(function<const char*()>(library, "chattts_build")),
        team(function<void*(int)>(library, "chattts_team")),
        dismiss(function<void(void*)>(library, "chattts_dismiss")),
        bytes(function<int64_t(int, int, int)>(library, "chattts_matrix_bytes")),
        pack(function<void(void*, int, const float*, int, int, char*)>(library, "chattts_pack")),
        product(function<void(void*, int, const float*, int, const char*, int, int, float*)>(
            library, "chattts_product")),
        block_bytes(
            function<int64_t(int, int, const NativeSizes*)>(library, "chattts_block_bytes")),
        llama(function<void*(int, int, const NativeSizes*, const NativeWeights*)>(
            library, "chattts_llama")),
        forget(function<void(void*)>(library, "chattts_llama_delete")),
        forward(function<void(void*, void*, const NativeBatch*)>(library, "chattts_forward")),
        sample(function<void(void*, const float*, int, int, int, const NativeDraw*, const float*,
                             int32_t*, float*)>(library, "chattts_sample")) {}

  const char* (*build)();
  void* (*team)(int);
  void (*dismiss)(void*);
  int64_t (*bytes)(int, int, int);
  void (*pack)(void*, int, const float*, int, int, char*);
  void (*product)(void*, int, const float*, int, const char*, int, int, float*);
  int64_t (*block_bytes)(int, int, const NativeSizes*);
  void* (*llama)(int, int, const NativeSizes*, const NativeWeights*);
  void (*forget)(void*);
  void (*forward)(void*, void*, const NativeBatch*);
  void (*sample)(void*, const float*, int, int, int, const NativeDraw*, const float*, int32_t*,
                 float*);
};

// The largest error of a product, as a part of the sum of its terms' sizes. Weights of 16 and 8
// bits, and inputs that are rounded with them, are further from the sums in double.
const double kBounds[] = {1e-6, 8e-3, 1.2e-2, 4e-3};

void compare(const Kernels& kernels, int kind, int outputs, int inputs) {
  constexpr int kRows = 19;
  std::mt19937 numbers(outputs * 1000 + inputs);
  std::normal_distribution<float> normal;
  std::vector<float> weight(size_t(outputs) * inputs), rows(size_t(kRows) * inputs);
  for (float& x : weight) x = normal(numbers);
  for (float& x : rows) x = normal(numbers);
  std::vector<float> first;
  for (int size : {1, 3}) {
    void* team = kernels.team(size);
    std::vector<char> packed(kernels.bytes(kind, outputs, inputs));
    kernels.pack(team, kind, weight.data(), outputs, inputs, packed.data());
    std::vector<float> out(size_t(kRows) * outputs), alone(outputs);
    kernels.product(team, kind, rows.data(), kRows, packed.data(), outputs, inputs, out.data());
    check(first.empty() || first == out, "teams differ");
    first = out;
    for (int m = 0; m < kRows; ++m) {
      const float* in = &rows[size_t(m) * inputs];
      kernels.product(team, kind, in, 1, packed.data(), outputs, inputs, alone.data());
      for (int n = 0; n < outputs; ++n) {
        double sum = 0, sizes = 0;
        for (int k = 0; k < inputs; ++k) {
          const double term = double(in[k]) * weight[size_t(n) * inputs + k];
          sum += term;
          sizes += std::fabs(term);
        }
        const float found = out[size_t(m) * outputs + n];
        check(found == alone[n], "a row depends on the rows beside it");
        check(std::fabs(found - sum) <= kBounds[kind] * (sizes + 1), "a product is wrong");
      }
    }
    kernels.dismiss(team);
  }
}

// Numbers in [-1, 1) that are the same with every standard library.
struct Numbers {
  std::mt19937 words{20};

  float next() { return (int(words() >> 8) - (1 << 23)) * 0x1p-23f; }
  std::vector<float> row(size_t count, float size) {
    std::vector<float> made(count);
    for (float& x : made) x = size * next();
    return made;
  }
};

struct Hash {  // FNV-1a
  uint64_t value = 0xcbf29ce484222325u;

  void add(const void* data, size_t count) {
    for (size_t i = 0; i < count; ++i)
      value = (value ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3u;
  }
};

// Returns the hash of what a Llama with weights of eight bits draws.
uint64_t speak(const Kernels& kernels) {
  constexpr int kCodes = 61, kBooks = 4, kTexts = 50, kSteps = 40, kPrompt = 5, kBlocks = 6;
  NativeSizes sizes = {};
  sizes.hidden = sizes.own_hidden = 72;  // sums over it have a rest
  sizes.intermediate = sizes.own_inner = 132;
  sizes.layers = 2, sizes.heads = 4, sizes.kv_heads = 2, sizes.head_size = 16;
  sizes.num_codebooks = kBooks, sizes.block_size = 8, sizes.audio_tokens = kCodes;
  sizes.queries = sizes.heads * sizes.head_size, sizes.eps = 1e-5f;
  Numbers numbers;
  void* team = kernels.team(2);
  const auto packed = [&](int kind, int outputs, int inputs) {
    std::vector<char> made(kernels.bytes(kind, outputs, inputs) + 64);
    kernels.pack(team, kind, numbers.row(size_t(outputs) * inputs, 0.2f).data(), outputs, inputs,
                 made.data());
    return made;
  };
  const auto table = [&](int rows) {
    std::vector<uint16_t> made;
    for (float x : numbers.row(size_t(rows) * sizes.hidden, 1))
      made.push_back(chattts::to_bf16(x));
    return made;
  };
  const int fused = sizes.queries + 2 * sizes.kv_heads * sizes.head_size;
  std::vector<std::vector<char>> matrices;
  std::vector<std::vector<float>> norms;
  std::vector<NativeLayer> layers(sizes.layers);
  for (NativeLayer& layer : layers) {
    const int shapes[][2] = {{fused, sizes.hidden},
                             {sizes.hidden, sizes.queries},
                             {sizes.intermediate, sizes.hidden},
                             {sizes.intermediate, sizes.hidden},
                             {sizes.hidden, sizes.intermediate}};
    const char** places[] = {&layer.qkv, &layer.out, &layer.gate, &layer.up, &layer.down};
    for (int i = 0; i < 5; ++i) {
      matrices.push_back(packed(chattts::kInt8, shapes[i][0], shapes[i][1]));
      *places[i] = matrices.back().data();
    }
    for (const float** norm : {&layer.attention_norm, &layer.mlp_norm}) {
      norms.push_back(numbers.row(sizes.hidden, 1));
      *norm = norms.back().data();
    }
  }
  const auto texts = table(kTexts), codes = table(kCodes * kBooks);
  const auto final_norm = numbers.row(sizes.hidden, 1);
  const size_t positions = size_t(kBlocks) * sizes.block_size;
  const auto cosines = numbers.row(positions * sizes.head_size, 1);
  const auto sines = numbers.row(positions * sizes.head_size, 1);
  const auto head = packed(chattts::kWideBfloat16, kCodes * kBooks, sizes.hidden);
  NativeWeights weights = {};
  weights.layers = layers.data(), weights.final_norm = final_norm.data();
  weights.text_table = texts.data(), weights.code_table = codes.data();
  weights.cosines = cosines.data(), weights.sines = sines.data();
  void* llama = kernels.llama(chattts::kInt8, 0, &sizes, &weights);
  std::vector<char> pool(kernels.block_bytes(chattts::kInt8, 0, &sizes) * kBlocks);
  const int32_t blocks[kBlocks] = {3, 1, 4, 0, 5, 2}, table_of[kPrompt] = {};

  Hash hash;
  std::vector<int32_t> drawn;
  std::vector<float> hidden(sizes.hidden), logits(kCodes * kBooks), logprobs(kBooks);
  for (int step = 0, position = 0; step < kSteps; ++step) {
    const int rows = step == 0 ? kPrompt : 1;
    std::vector<uint8_t> kinds(rows, step == 0 ? chattts::kText : chattts::kCode);
    std::vector<int32_t> ids(rows * kBooks), places(rows);
    for (int row = 0; row < rows; ++row, ++position) {
      places[row] = position;
      for (int book = 0; book < kBooks; ++book)
        ids[row * kBooks + book] = step == 0 ? 7 * row + 1 : drawn[drawn.size() - kBooks + book];
    }
    const int32_t last = rows - 1;
    NativeBatch batch = {};
    batch.rows = rows, batch.draws = 1, batch.table_width = kBlocks;
    batch.kinds = kinds.data(), batch.ids = ids.data(), batch.positions = places.data();
    batch.tables = blocks, batch.table_of = table_of, batch.draw_rows = &last;
    batch.pool = pool.data(), batch.hiddens = hidden.data();
    kernels.forward(team, llama, &batch);
    kernels.product(team, chattts::kWideBfloat16, hidden.data(), 1, head.data(), kCodes * kBooks,
                    sizes.hidden, logits.data());
    NativeDraw draw = {};
    draw.top_p = 0.9f, draw.penalty = 1.05f, draw.top_k = 20, draw.forbidden = -1;
    draw.position = position, draw.seed = 5;
    draw.history = std::min(16, int(drawn.size()) / kBooks), draw.stride = kBooks;
    draw.window = drawn.data() + drawn.size() - size_t(draw.history) * kBooks;
    const float temperatures[kBooks] = {0.3f, 0.7f, 1, 1.3f};
    int32_t chosen[kBooks];
    kernels.sample(team, logits.data(), 1, kBooks, kCodes, &draw, temperatures, chosen,
                   logprobs.data());
    check(*std::min_element(chosen, chosen + kBooks) >= 0, "a logit is not finite");
    drawn.insert(drawn.end(), chosen, chosen + kBooks);
    hash.add(hidden.data(), hidden.size() * sizeof(float));
    hash.add(chosen, sizeof chosen);
  }
  kernels.forget(llama);
  kernels.dismiss(team);
  return hash.value;
}

}  // namespace

int main(int count, char** arguments) {
  ask_for_amx();
  for (int i = 1; i < count; ++i) {
    void* library = open_library(arguments[i]);
    check(library != nullptr, arguments[i]);
    const Kernels kernels(library);
    for (int kind = 0; kind < 4; ++kind)
      for (int outputs : {1, 17, 48, 131})
        for (int inputs : {1, 33, 64, 1025}) compare(kernels, kind, outputs, inputs);
    std::printf("%s: %s, no fault; in eight bits %016llx\n", arguments[i], kernels.build(),
                static_cast<unsigned long long>(speak(kernels)));
  }
}
