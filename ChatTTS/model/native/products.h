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

// For each kind of weights: its layout in memory, the type of its inputs and of its sums, and one
// step of its accumulation. A step takes `kStep` inputs; a panel lies as [k / kStep][column][kStep].
// `input` makes an input of a float. Where rows are quantised, that needs the whole row: quantise.

struct Float32Weights {
  typedef float Stored;
  typedef float Input;
  typedef Floats Sum;
  static constexpr int kStep = 1;
  static constexpr bool kQuantised = false;
  static Input input(float x) { return x; }

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

#if HAS_BF16_PRODUCT

// Inputs rounded to bfloat16, pairs multiplied and summed by one instruction.
struct Bfloat16Weights {
  typedef bf16 Stored;
  typedef bf16 Input;
  typedef Floats Sum;
  static constexpr int kStep = 2;
  static constexpr bool kQuantised = false;
  static Input input(float x) { return to_bf16(x); }

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

#else

struct Bfloat16Weights {
  typedef bf16 Stored;
  typedef float Input;
  typedef Floats Sum;
  static constexpr int kStep = 2;
  static constexpr bool kQuantised = false;
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

#endif

// Eight bits a weight, with a scale for each output, and sixteen bits an input, with a scale for
// each row, which lies behind the row. Sums of whole numbers are exact, so their order is free.
// Inputs of eight bits would change more of the model's choices; see docs/performance.md.
struct Int8Weights {
  typedef int8_t Stored;
  typedef int16_t Input;
  typedef Ints Sum;
  static constexpr int kStep = 2;
  static constexpr bool kQuantised = true;

  // The largest input: no sum leaves 32 bits, whatever the weights are.
  static int limit(int inputs) { return std::min(32767, INT32_MAX / (127 * std::max(1, inputs))); }

  template <int Rows>
  static inline void step(const Input* in, int stride, const Stored* at,
                          Ints (&sums)[Rows][kPanelVectors]) {
#if defined(__AVX512BW__) || defined(__AVX2__)
    Pairs w[kPanelVectors];
    for (int j = 0; j < kPanelVectors; ++j) w[j] = widen_pairs(at + j * kLanes * kStep);
    for (int m = 0; m < Rows; ++m) {
      int32_t pair;
      std::memcpy(&pair, in + m * stride, 4);
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

// The numbers from one row of inputs to the next. A quantised row has its scale behind it.
template <class Weights>
inline int row_stride(int inputs) {
  const int tail = Weights::kQuantised ? sizeof(float) / sizeof(typename Weights::Input) : 0;
  return round_up(inputs, 2) + tail;
}

inline float row_scale(const int16_t* row, int inputs) {
  float scale;
  std::memcpy(&scale, row + round_up(inputs, 2), sizeof scale);
  return scale;
}

// Writes a row as whole numbers and their scale. The scale is NaN if any number of the row is not
// finite, so that damage is heard.
inline void quantise(const float* from, int inputs, int16_t* to) {
  Floats peaks = {}, checks = {};
  float peak = 0, check = 0;
  int k = 0;
  for (; k + kLanes <= inputs; k += kLanes) {
    const Floats x = load<Floats>(from + k), size = x < 0 ? -x : x;
    peaks = size > peaks ? size : peaks;
    checks += x * 0;
  }
  for (; k < inputs; ++k) {
    peak = std::max(peak, std::fabs(from[k]));
    check += from[k] * 0;
  }
  for (int i = 0; i < kLanes; ++i) {
    peak = std::max(peak, peaks[i]);
    check += checks[i];
  }
  const float limit = Int8Weights::limit(inputs), least = 1e-30f;
  const bool is_sound = check == 0;
  // A row that is next to nothing is nothing: its quotients would leave the range of floats.
  const float factor = is_sound && peak > least ? limit / peak : 0;
  const float scale = !is_sound ? NAN : peak > least ? peak / limit : 0;
  for (k = 0; k < inputs; ++k) to[k] = is_sound ? int16_t(std::nearbyint(from[k] * factor)) : 0;
  if (inputs % 2) to[inputs] = 0;
  std::memcpy(to + round_up(inputs, 2), &scale, sizeof scale);
}

// Writes a row of floats as a product takes it.
template <class Weights>
inline void take_row(const float* from, int inputs, typename Weights::Input* to) {
  if constexpr (Weights::kQuantised)
    quantise(from, inputs, to);
  else
    for (int k = 0; k < inputs; ++k) to[k] = Weights::input(from[k]);
}

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
    int64_t scales = Weights::kQuantised ? int64_t(panels(outputs)) * kPanel * sizeof(float) : 0;
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
      if constexpr (Weights::kQuantised) reinterpret_cast<float*>(to)[n] = scale;
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
  typedef typename Weights::Sum Sum;
  Sum acc[Rows][kPanelVectors];
  for (int m = 0; m < Rows; ++m)
    for (int j = 0; j < kPanelVectors; ++j) acc[m][j] = load<Sum>(sums + m * kPanel + j * kLanes);
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
  if constexpr (Weights::kQuantised)  // the sums are still whole numbers
    for (int m = 0; m < rows; ++m) {
      const Floats scale = splat(row_scale(in + int64_t(m) * stride, matrix.inputs));
      for (int n = 0; n < kPanel; n += kLanes) {
        float* at = sums + m * kPanel + n;
        const Floats sum = __builtin_convertvector(load<Ints>(at), Floats);
        store(at, sum * load<Floats>(matrix.scales(p) + n) * scale);
      }
    }
}

}  // namespace velocity
