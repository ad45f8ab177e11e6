// Products of a few rows with packed weights: out[m][n] = sum over k of in[m][k] * weight[n][k].
//
// Weights are cut into panels of kPanel outputs. Within a panel they lie in the order in which
// they are read, so that a step reads memory once, from start to end. Every output has one
// accumulator that runs over k from 0 upwards, whatever the number of rows. So the bits of a row
// never depend on the rows beside it.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "team.h"
#include "vectors.h"

namespace velocity {

enum WeightKind { kFloat32 = 0, kBfloat16 = 1, kInt8 = 2 };

// For each kind of weights: its layout in memory, the type of its inputs, and one step of its
// accumulation. A step takes `kStep` inputs; a panel lies as [k / kStep][column][kStep].

// One input at a time, in float32 whatever the weights are stored as.
template <class Kept, bool Scaled>
struct SingleInputs {
  typedef Kept Stored;
  typedef float Input;
  static constexpr int kStep = 1;
  static constexpr bool kScaled = Scaled;
  static Input input(float x) { return x; }

  template <int Rows>
  static inline void step(const Input* in, int stride, const Stored* at,
                          Floats (&sums)[Rows][kPanelVectors]) {
    Floats w[kPanelVectors];
    for (int j = 0; j < kPanelVectors; ++j) w[j] = widen(at + j * kLanes);
    for (int m = 0; m < Rows; ++m) {
      Floats x = splat(in[m * stride]);
      for (int j = 0; j < kPanelVectors; ++j) sums[m][j] = multiply_add(x, w[j], sums[m][j]);
    }
  }
};

typedef SingleInputs<float, false> Float32Weights;

#if HAS_BF16_PRODUCT

// Inputs rounded to bfloat16, pairs multiplied and summed by one instruction.
struct PairedInputs {
  typedef bf16 Input;
  static constexpr int kStep = 2;
  static Input input(float x) { return to_bf16(x); }

  template <int Rows>
  static inline void accumulate(const Input* in, int stride, const __m512bh (&w)[kPanelVectors],
                                Floats (&sums)[Rows][kPanelVectors]) {
    for (int m = 0; m < Rows; ++m) {
      int32_t pair;
      std::memcpy(&pair, in + m * stride, 4);
      __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
      for (int j = 0; j < kPanelVectors; ++j)
        sums[m][j] = (Floats)_mm512_dpbf16_ps((__m512)sums[m][j], x, w[j]);
    }
  }
};

struct Bfloat16Weights : PairedInputs {
  typedef bf16 Stored;
  static constexpr bool kScaled = false;

  template <int Rows>
  static inline void step(const Input* in, int stride, const Stored* at,
                          Floats (&sums)[Rows][kPanelVectors]) {
    __m512bh w[kPanelVectors];
    for (int j = 0; j < kPanelVectors; ++j)
      w[j] = (__m512bh)_mm512_loadu_si512(at + j * kLanes * kStep);
    accumulate(in, stride, w, sums);
  }
};

struct Int8Weights : PairedInputs {
  typedef int8_t Stored;
  static constexpr bool kScaled = true;

  template <int Rows>
  static inline void step(const Input* in, int stride, const Stored* at,
                          Floats (&sums)[Rows][kPanelVectors]) {
    __m512bh w[kPanelVectors];
    for (int j = 0; j < kPanelVectors; ++j) {  // whole numbers up to 127 are exact in bfloat16
      const int8_t* from = at + j * kLanes * kStep;
      w[j] = _mm512_cvtne2ps_pbh((__m512)widen(from + kLanes), (__m512)widen(from));
    }
    accumulate(in, stride, w, sums);
  }
};

#else

struct Bfloat16Weights {
  typedef bf16 Stored;
  typedef float Input;
  static constexpr int kStep = 2;
  static constexpr bool kScaled = false;
  static Input input(float x) { return x; }

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
      for (int j = 0; j < kPanelVectors; ++j) sums[m][j] = multiply_add(x, first[j], sums[m][j]);
      for (int j = 0; j < kPanelVectors; ++j) sums[m][j] = multiply_add(y, second[j], sums[m][j]);
    }
  }
};

typedef SingleInputs<int8_t, true> Int8Weights;

#endif

// A packed matrix: a scale for each column, where the kind has scales, and the panels behind them.
template <class Weights>
struct Matrix {
  const char* data;
  int outputs, inputs;

  typedef typename Weights::Stored Stored;

  static int64_t panel_size(int inputs) {
    return int64_t(round_up(inputs, Weights::kStep)) * kPanel;
  }
  static int panels(int outputs) { return round_up(outputs, kPanel) / kPanel; }
  static int64_t bytes(int outputs, int inputs) {
    int64_t scales = Weights::kScaled ? int64_t(panels(outputs)) * kPanel * sizeof(float) : 0;
    return scales + panels(outputs) * panel_size(inputs) * sizeof(Stored);
  }

  int panels() const { return panels(outputs); }
  const Stored* panel(int p) const {
    return reinterpret_cast<const Stored*>(data + (bytes(outputs, 0))) + p * panel_size(inputs);
  }
  const float* scales(int p) const { return reinterpret_cast<const float*>(data) + p * kPanel; }

  // Packs panel `p` of row-major float32 [outputs][inputs]. `to` is room for the whole matrix.
  static void pack(const float* from, int outputs, int inputs, int p, char* to) {
    const Matrix packed{to, outputs, inputs};
    Stored* at = const_cast<Stored*>(packed.panel(p));
    std::memset(at, 0, panel_size(inputs) * sizeof(Stored));
    for (int n = p * kPanel; n < std::min(outputs, (p + 1) * kPanel); ++n) {
      const float* row = from + int64_t(n) * inputs;
      const float scale = scale_of(row, inputs);
      if constexpr (Weights::kScaled) reinterpret_cast<float*>(to)[n] = scale;
      for (int k = 0; k < inputs; ++k)
        at[(k / Weights::kStep * kPanel + n % kPanel) * Weights::kStep + k % Weights::kStep] =
            stored(row[k], scale);
    }
  }

 private:
  // Returns the scale that makes the largest weight of a row 127. It is NaN if any weight is, so
  // that damaged weights are heard.
  static float scale_of(const float* row, int inputs) {
    float peak = 0, check = 0;
    for (int k = 0; k < inputs; ++k) {
      peak = std::max(peak, std::fabs(row[k]));
      check += row[k] * 0;
    }
    if (check != 0) return NAN;
    // A subnormal scale would be rounded or be 0, and quotients would leave [-127, 127].
    return peak == 0 ? 1 : std::max(peak / 127, std::numeric_limits<float>::min());
  }

  static Stored stored(float x, float scale) {
    if constexpr (std::is_same<Stored, bf16>::value) return to_bf16(x);
    if constexpr (std::is_same<Stored, int8_t>::value)
      return int8_t(std::isfinite(scale) ? std::nearbyint(x / scale) : 0);
    return Stored(x);
  }
};

// Adds the products of one tile's rows over inputs [from, to) to `sums`.
template <class Weights, int Rows>
inline void tile(const typename Weights::Input* in, int stride,
                 const typename Weights::Stored* panel, int from, int to, float* sums) {
  Floats acc[Rows][kPanelVectors];
  for (int m = 0; m < Rows; ++m)
    for (int j = 0; j < kPanelVectors; ++j)
      acc[m][j] = load<Floats>(sums + m * kPanel + j * kLanes);
  for (int k = from; k < to; k += Weights::kStep)
    Weights::template step<Rows>(in + k, stride, panel + int64_t(k) * kPanel, acc);
  for (int m = 0; m < Rows; ++m)
    for (int j = 0; j < kPanelVectors; ++j) store(sums + m * kPanel + j * kLanes, acc[m][j]);
}

template <class Weights, int Rows = kTileRows>
inline void tile_of(int rows, const typename Weights::Input* in, int stride,
                    const typename Weights::Stored* panel, int from, int to, float* sums) {
  if (rows == Rows)
    tile<Weights, Rows>(in, stride, panel, from, to, sums);
  else if constexpr (Rows > 1)
    tile_of<Weights, Rows - 1>(rows, in, stride, panel, from, to, sums);
}

// Computes one panel of a product for all rows, into sums[rows][kPanel].
//
// Many rows take the inputs in stretches, whose weights stay in the nearest cache.
template <class Weights>
inline void panel_product(const typename Weights::Input* in, int rows, int stride,
                          const Matrix<Weights>& matrix, int p, float* sums) {
  constexpr int kStretch = 512;
  std::fill_n(sums, size_t(rows) * kPanel, 0.0f);
  const int whole = round_up(matrix.inputs, Weights::kStep);
  const int stretch = rows <= kTileRows ? whole : kStretch;
  for (int from = 0; from < whole; from += stretch) {
    const int to = std::min(whole, from + stretch);
    for (int m = 0; m < rows; m += kTileRows)
      tile_of<Weights>(std::min(kTileRows, rows - m), in + int64_t(m) * stride, stride,
                       matrix.panel(p), from, to, sums + m * kPanel);
  }
  if constexpr (Weights::kScaled)
    for (int m = 0; m < rows; ++m)
      for (int n = 0; n < kPanel; ++n) sums[m * kPanel + n] *= matrix.scales(p)[n];
}

}  // namespace velocity
