// The kinds of weights: how each lies in memory, and how it is multiplied.
#pragma once

#include <algorithm>
#include <climits>
#include <cstring>

#include "amx.h"
#include "neon.h"
#include "vectors.h"

namespace chattts {

enum WeightKind { kFloat32 = 0, kBfloat16 = 1, kInt8 = 2, kWideBfloat16 = 3 };

// For each kind of weights: its layout in memory, the type of its inputs and of its sums, and one
// step of its accumulation. A step takes `kStep` inputs; a panel is [k / kStep][column][kStep].
// Where rows are quantised, that needs the whole row: see quantise. Instructions that take several
// rows or columns have sums of their own: see SumsOf.

// Zeros stand behind the inputs of a row, up to a multiple of it. Quantised rows have more.
constexpr int kMostInputs = 4;

// Rows of inputs that are not quantised.
struct PlainRows {
  static constexpr bool kQuantised = false;
  static int place(int k) { return k; }
  static int stride(int inputs) { return round_up(inputs, kMostInputs); }
};

struct Float32Weights : PlainRows {
  typedef float Stored;
  typedef float Input;
  typedef Floats Sum;
  static constexpr int kStep = 1;
  static constexpr int kRows = kTileRows;

  template <int Rows>
  static inline void step(const Input* in, int stride, const Stored* at,
                          Floats (&sums)[Rows][kPanelVectors]) {
    Floats w[kPanelVectors];
    for (int j = 0; j < kPanelVectors; ++j) w[j] = load<Floats>(at + j * kLanes);
    for (int m = 0; m < Rows; ++m) {
      Floats x = splat(in[m * stride]);
      for (int j = 0; j < kPanelVectors; ++j) sums[m][j] = multiply_add(x, w[j], sums[m][j]);
    }
  }
};

// Weights widened to floats, and inputs that are floats. `Fused`: rounded once on every processor.
template <bool Fused>
struct WidenedBfloat16 : PlainRows {
  typedef bf16 Stored;
  typedef float Input;
  typedef Floats Sum;
  static constexpr int kStep = 2;
  // The sums of more rows and both members of pairs do not fit into AVX2's registers.
  static constexpr int kRows = kLanes == 8 ? 4 : kTileRows;

  template <int Rows>
  static inline void step(const Input* in, int stride, const Stored* at,
                          Floats (&sums)[Rows][kPanelVectors]) {
    Floats first[kPanelVectors], second[kPanelVectors];
    for (int j = 0; j < kPanelVectors; ++j) {
      Words pairs = load<Words>(at + j * kLanes * kStep);
      first[j] = even_members(pairs);
      second[j] = odd_members(pairs);
    }
    for (int m = 0; m < Rows; ++m) {
      Floats x = splat(in[m * stride]), y = splat(in[m * stride + 1]);
      for (int j = 0; j < kPanelVectors; ++j) sums[m][j] = add(x, first[j], sums[m][j]);
      for (int j = 0; j < kPanelVectors; ++j) sums[m][j] = add(y, second[j], sums[m][j]);
    }
  }

  static inline Floats add(Floats x, Floats w, Floats sum) {
    return Fused ? fused(x, w, sum) : multiply_add(x, w, sum);
  }
};

typedef WidenedBfloat16<true> WideBfloat16Weights;

#if HAS_BF16_PRODUCT

// Inputs rounded to bfloat16, pairs multiplied and summed by one instruction.
struct Bfloat16Weights : PlainRows {
  typedef bf16 Stored;
  typedef bf16 Input;
  typedef Floats Sum;
  static constexpr int kStep = 2;
  static constexpr int kRows = kTileRows;

  template <int Rows>
  static inline void step(const Input* in, int stride, const Stored* at,
                          Floats (&sums)[Rows][kPanelVectors]) {
    __m512bh w[kPanelVectors];
    for (int j = 0; j < kPanelVectors; ++j)
      w[j] = (__m512bh)_mm512_loadu_si512(at + j * kLanes * kStep);
    for (int m = 0; m < Rows; ++m) {
      int32_t pair;
      std::memcpy(&pair, in + m * stride, 4);
      __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
      for (int j = 0; j < kPanelVectors; ++j)
        sums[m][j] = (Floats)_mm512_dpbf16_ps((__m512)sums[m][j], x, w[j]);
    }
  }
};

#elif HAS_ARM_BF16

// Inputs rounded to bfloat16, and products of two rows with two columns by one instruction.
struct Bfloat16Weights : PlainRows {
  typedef bf16 Stored;
  typedef bf16 Input;
  static constexpr int kStep = kPairStep;
  static constexpr int kRows = 4;
};

#else

typedef WidenedBfloat16<false> Bfloat16Weights;

#endif

// Eight bits a weight, with a scale for each output, and sixteen bits an input, with a scale for
// each row, which lies behind the row. Sums of whole numbers are exact, so their order is free.
// Inputs of eight bits would change more of the model's choices; see docs/performance.md.

// The largest input: no sum leaves 32 bits, whatever the weights are.
inline int largest_input(int inputs) {
  return std::min(32767, INT32_MAX / (127 * std::max(1, inputs)));
}

#if HAS_TILES

// Sums of the products with the upper and with the lower bytes of inputs.
struct ByteSums {
  Ints high, low;
};
template <>
inline ByteSums load<ByteSums>(const void* from) {
  return {Ints{}, load<Ints>(from)};
}
inline void store(void* to, ByteSums sums) { store(to, sums.low + (sums.high << 8)); }

// An input x is the two bytes of x + kOffset, since a product takes bytes without a sign. The sum
// of kOffset times each weight is taken off at the end. Sums may wrap round before.
struct Int8Weights {
  typedef int8_t Stored;
  typedef uint8_t Input;
  typedef ByteSums Sum;
  static constexpr int kStep = 4;
  static constexpr int kRows = kTileRows / 2;  // two sums for each vector
  static constexpr bool kQuantised = true;
  static constexpr int kOffset = 32768;

  // Rows lie in blocks: the upper bytes of 64 inputs, and their lower bytes behind them.
  static constexpr int kBlock = 64;
  static int place(int k) { return k / kBlock * 2 * kBlock + k % kBlock; }
  static int scale_place(int inputs) { return round_up(inputs, kBlock) * 2; }
  static int stride(int inputs) { return scale_place(inputs) + 64; }

  static void put(int x, Input* row, int k) {
    row[place(k)] = Input((x + kOffset) >> 8);
    row[place(k) + kBlock] = Input(x + kOffset);
  }
  static void put(Ints x, Input* row, int k) {
    store(row + place(k), narrow((x + kOffset) >> 8));
    store(row + place(k) + kBlock, narrow(x + kOffset));
  }

  template <int Rows>
  static inline void step(const Input* in, int stride, const Stored* at,
                          ByteSums (&sums)[Rows][kPanelVectors]) {
    Ints w[kPanelVectors];
    for (int j = 0; j < kPanelVectors; ++j) w[j] = load<Ints>(at + j * kLanes * kStep);
    for (int m = 0; m < Rows; ++m) {
      const int32_t high = load<int32_t>(in + m * stride);
      const int32_t low = load<int32_t>(in + m * stride + kBlock);
      for (int j = 0; j < kPanelVectors; ++j) {
        sums[m][j].high = add_products(sums[m][j].high, high, w[j]);
        sums[m][j].low = add_products(sums[m][j].low, low, w[j]);
      }
    }
  }
};

#elif HAS_ARM_BYTES

// An input is its upper byte, and its lower byte less 128: products take bytes with a sign. What is
// missing, 128 times the sum of the weights, is added at the end. Sums may wrap round before.
struct Int8Weights {
  typedef int8_t Stored;
  typedef int8_t Input;
  static constexpr int kStep = kByteStep;
  static constexpr int kRows = 3;  // the sums of more do not fit into the registers
  static constexpr bool kQuantised = true;
  static constexpr int kOffset = -128;

  // Rows lie in blocks: the upper bytes of eight inputs, and their lower bytes behind them.
  static constexpr int kBlock = 8;
  static int place(int k) { return k / kBlock * 2 * kBlock + k % kBlock; }
  static int scale_place(int inputs) { return round_up(inputs, kBlock) * 2; }
  static int stride(int inputs) { return scale_place(inputs) + 16; }

  static void put(int x, Input* row, int k) {
    row[place(k)] = Input(x >> 8);
    row[place(k) + kBlock] = Input((x & 255) + kOffset);
  }
  static void put(Ints x, Input* row, int k) {
    store(row + place(k), narrow(x >> 8));
    store(row + place(k) + kBlock, narrow((x & 255) + kOffset));
  }
};

#else

struct Int8Weights {
  typedef int8_t Stored;
  typedef int16_t Input;
  typedef Ints Sum;
  static constexpr int kStep = 2;
  static constexpr int kRows = kTileRows;
  static constexpr bool kQuantised = true;
  static constexpr int kOffset = 0;

  static int place(int k) { return k; }
  static int scale_place(int inputs) { return round_up(inputs, 2); }
  static int stride(int inputs) { return scale_place(inputs) + 2; }

  static void put(int x, Input* row, int k) { row[k] = Input(x); }
  static void put(Ints x, Input* row, int k) { store(row + k, __builtin_convertvector(x, Shorts)); }

  template <int Rows>
  static inline void step(const Input* in, int stride, const Stored* at,
                          Ints (&sums)[Rows][kPanelVectors]) {
#if defined(__aarch64__)
    int16x8_t first[kPanelVectors / 2], second[kPanelVectors / 2];
    for (int j = 0; j < kPanelVectors / 2; ++j) {
      const int16x8_t pairs = load<int16x8_t>(at + j * 16);
      first[j] = vshrq_n_s16(vshlq_n_s16(pairs, 8), 8);
      second[j] = vshrq_n_s16(pairs, 8);
    }
    for (int m = 0; m < Rows; ++m) {
      const int16_t x = in[m * stride], y = in[m * stride + 1];
      for (int j = 0; j < kPanelVectors; j += 2) {
        add_products(sums[m][j], sums[m][j + 1], first[j / 2], x);
        add_products(sums[m][j], sums[m][j + 1], second[j / 2], y);
      }
    }
#elif defined(__AVX512BW__) || defined(__AVX2__)
    Pairs w[kPanelVectors];
    for (int j = 0; j < kPanelVectors; ++j) w[j] = widen_pairs(at + j * kLanes * kStep);
    for (int m = 0; m < Rows; ++m) {
      const int32_t pair = load<int32_t>(in + m * stride);
      for (int j = 0; j < kPanelVectors; ++j) sums[m][j] = add_products(sums[m][j], pair, w[j]);
    }
#else
    Ints first[kPanelVectors], second[kPanelVectors];
    for (int j = 0; j < kPanelVectors; ++j) {
      const Words pairs = __builtin_convertvector(load<Halves>(at + j * kLanes * kStep), Words);
      first[j] = (Ints)(pairs << 24) >> 24;
      second[j] = (Ints)(pairs << 16) >> 24;
    }
    for (int m = 0; m < Rows; ++m) {
      const int32_t x = in[m * stride], y = in[m * stride + 1];
      for (int j = 0; j < kPanelVectors; ++j) sums[m][j] += first[j] * x + second[j] * y;
    }
#endif
  }
};

#endif

}  // namespace chattts
