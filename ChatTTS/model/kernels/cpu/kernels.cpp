// The functions that Python calls by ctypes. They throw nothing but std::bad_alloc. Python checks
// all sizes before it calls.
#include <system_error>

#include "decoder.h"
#include "llama.h"
#include "sampler.h"
#include "wait.h"

using namespace chattts;

namespace {

template <class Act>
void with_weights(int kind, Act act) {
  if (kind == kFloat32)
    act(Float32Weights{});
  else if (kind == kBfloat16)
    act(Bfloat16Weights{});
  else
    act(Int8Weights{});
}

// Matrices of this kind are none of a Llama's.
template <class Act>
void with_matrices(int kind, Act act) {
  if (kind == kWideBfloat16)
    act(WideBfloat16Weights{});
  else
    with_weights(kind, act);
}

template <class Act>
void with_weights_and_table(int kind, int wide, Act act) {
  with_weights(kind, [&](auto weights) {
    if (wide)
      act(weights, float{});
    else
      act(weights, bf16{});
  });
}

template <class Weights>
void product(Team& team, const float* in, int rows, Matrix<Weights> matrix, float* out) {
  const int stride = row_stride<Weights>(matrix.inputs);
  std::vector<typename Weights::Input> inputs(size_t(rows) * stride);
  for (int row = 0; row < rows; ++row)
    take_row<Weights>(in + size_t(row) * matrix.inputs, matrix.inputs,
                      &inputs[size_t(row) * stride]);
  std::vector<std::vector<float>> sums(team.size(), std::vector<float>(size_t(rows) * kPanel));
  team.run([&](Team::Member& member) {
    member.each(matrix.panels(), [&](int p) {
      float* own = sums[member.rank].data();
      panel_product(inputs.data(), rows, stride, matrix, p, own, matrix.panel(p + 1));
      const int column = p * kPanel, count = std::min(kPanel, matrix.outputs - column);
      for (int row = 0; row < rows; ++row)
        std::copy_n(own + row * kPanel, count, out + size_t(row) * matrix.outputs + column);
    });
  });
}

}  // namespace

// A library for a wheel hides all names but these.
#pragma GCC visibility push(default)

extern "C" {

const char* chattts_build() {
#if HAS_TILES
  return "AVX-512 with bfloat16 products by AMX";
#elif HAS_BF16_PRODUCT
  return "AVX-512 with bfloat16 products";
#elif defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__)
  return "AVX2";
#elif HAS_ARM_BF16 && HAS_MATRIX_BYTES
  return "NEON with bfloat16 products and products of bytes by matrices";
#elif HAS_ARM_BF16
  return "NEON with bfloat16 products";
#elif HAS_ARM_BYTES
  return "NEON with products of bytes";
#elif defined(__aarch64__)
  return "NEON";
#else
  return "plain vectors";
#endif
}

// Bytes of the structures that Python fills, in the order of its own list.
int64_t chattts_structure_bytes(int which) {
  constexpr int64_t kBytes[] = {
      sizeof(NativeSizes),        sizeof(NativeLayer),        sizeof(NativeLowRank),
      sizeof(NativeWeights),      sizeof(NativeBatch),        sizeof(NativeConvNeXtBlock),
      sizeof(NativeDecoderLayer), sizeof(NativeDecoderInput), sizeof(NativeDraw),
  };
  return kBytes[which];
}

// Outputs of a panel of weights.
int chattts_panel() { return kPanel; }

// Returns null if the system does not give so many threads.
void* chattts_team(int size) {
  try {
    return new Team(size);
  } catch (const std::system_error&) {
    return nullptr;
  }
}

void chattts_dismiss(void* team) { delete static_cast<Team*>(team); }

int64_t chattts_matrix_bytes(int kind, int outputs, int inputs) {
  int64_t bytes = 0;
  with_matrices(kind,
                [&](auto weights) { bytes = Matrix<decltype(weights)>::bytes(outputs, inputs); });
  return bytes;
}

// `from` is row-major float32 [outputs][inputs].
void chattts_pack(void* team, int kind, const float* from, int outputs, int inputs, char* to) {
  with_matrices(kind, [&](auto weights) {
    typedef Matrix<decltype(weights)> Packed;
    static_cast<Team*>(team)->run([&](Team::Member& member) {
      member.each(Packed::panels(outputs),
                  [&](int p) { Packed::pack(from, outputs, inputs, p, to); });
    });
  });
}

// out [rows][outputs] = in [rows][inputs] times the packed matrix.
void chattts_product(void* team, int kind, const float* in, int rows, const char* matrix,
                     int outputs, int inputs, float* out) {
  with_matrices(kind, [&](auto weights) {
    product<decltype(weights)>(*static_cast<Team*>(team), in, rows, {matrix, outputs, inputs}, out);
  });
}

int64_t chattts_block_bytes(int kind, int wide, const NativeSizes* sizes) {
  const BlockShape shape{sizes->layers, sizes->kv_heads, sizes->head_size, sizes->block_size};
  int64_t bytes = 0;
  with_weights_and_table(kind, wide, [&](auto weights, auto table) {
    bytes = shape.block<CacheOf<decltype(weights), decltype(table)>>();
  });
  return bytes;
}

// `kind` of the matrices; `wide`: embeddings in float32 instead of bfloat16.
void* chattts_llama(int kind, int wide, const NativeSizes* sizes, const NativeWeights* weights) {
  LlamaBase* llama = nullptr;
  with_weights_and_table(kind, wide, [&](auto w, auto table) {
    llama = new Llama<decltype(w), decltype(table)>(*sizes, *weights);
  });
  return llama;
}

void chattts_llama_delete(void* llama) { delete static_cast<LlamaBase*>(llama); }

void chattts_forward(void* team, void* llama, const NativeBatch* batch) {
  static_cast<LlamaBase*>(llama)->forward(*static_cast<Team*>(team), *batch);
}

// Takes all inputs through the layers. No state may be in two inputs.
void chattts_advance(void* team, const NativeDecoderLayer* layers, int depth,
                     const NativeDecoderInput* inputs, int count) {
  Team& crew = *static_cast<Team*>(team);
  DecoderCall(layers, depth, inputs, count, crew.size()).run(crew);
}

// Draws for `rows` rows of `num_codebooks` codebooks: logits [rows][num_codebooks][size].
// `temperatures` is [rows][num_codebooks]. `ids` and `logprobs` are outputs of that shape; an id is
// -1 where the logits are not finite.
void chattts_sample(void* team, const float* logits, int rows, int num_codebooks, int size,
                    const NativeDraw* draws, const float* temperatures, int32_t* ids,
                    float* logprobs) {
  Team& crew = *static_cast<Team*>(team);
  std::vector<LaneSampler> samplers(crew.size());
  crew.run([&](Team::Member& member) {
    member.each(rows * num_codebooks, [&](int i) {
      NativeDraw settings = draws[i / num_codebooks];
      settings.temperature = temperatures[i];
      ids[i] = samplers[member.rank].draw(logits + size_t(i) * size, size, settings,
                                          i % num_codebooks, &logprobs[i]);
    });
  });
}
}

#pragma GCC visibility pop
