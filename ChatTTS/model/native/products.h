// Products of a few rows with packed weights: out[m][n] = sum over k of in[m][k] * weight[n][k].
//
// Weights are cut into panels of kPanel outputs. Within a panel they lie in the order in which
// they are read, so that a step reads memory once, from start to end. Every output has one
// accumulator that runs over k from 0 upwards, whatever the number of rows. So the bits of a row
// never depend on the rows beside it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "amx.h"
#include "neon.h"
#include "team.h"
#include "vectors.h"

namespace velocity {

enum WeightKind { kFloat32 = 0, kBfloat16 = 1, kInt8 = 2, kWideBfloat16 = 3 };

// For each kind of weights: its layout in memory, the type of its inputs and of its sums, and one
// step of its accumulation. A step takes `kStep` inputs; a panel is [k / kStep][column][kStep].
// Where rows are quantised, that needs the whole row: see quantise. Instructions that take several
// rows or columns have sums of their own: see SumsOf.

// Zeros stand behind the inputs of a row, up to a multiple of it. Quantised rows have more.
constexpr int kMostInputs = 4;

struct Float32Weights {
  typedef float Stored;
  typedef float Input;
  typedef Floats Sum;
  static constexpr int kStep = 1;
  static constexpr int kRows = kTileRows;
  static constexpr bool kQuantised = false;
  static int place(int k) { return k; }
  static int stride(int inputs) { return round_up(inputs, kMostInputs); }

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
struct WidenedBfloat16 {
  typedef bf16 Stored;
  typedef float Input;
  typedef Floats Sum;
  static constexpr int kStep = 2;
  // The sums of more rows and both members of pairs do not fit into AVX2's registers.
  static constexpr int kRows = kLanes == 8 ? 4 : kTileRows;
  static constexpr bool kQuantised = false;
  static int place(int k) { return k; }
  static int stride(int inputs) { return round_up(inputs, kMostInputs); }

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
struct Bfloat16Weights {
  typedef bf16 Stored;
  typedef bf16 Input;
  typedef Floats Sum;
  static constexpr int kStep = 2;
  static constexpr int kRows = kTileRows;
  static constexpr bool kQuantised = false;
  static int place(int k) { return k; }
  static int stride(int inputs) { return round_up(inputs, kMostInputs); }

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
struct Bfloat16Weights {
  typedef bf16 Stored;
  typedef bf16 Input;
  static constexpr int kStep = kPairStep;
  static constexpr int kRows = 4;
  static constexpr bool kQuantised = false;
  static int place(int k) { return k; }
  static int stride(int inputs) { return round_up(inputs, kMostInputs); }
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

// The numbers from one row of inputs to the next. A quantised row has its scale behind it.
template <class Weights>
inline int row_stride(int inputs) {
  return Weights::stride(inputs);
}

// Writes a row as whole numbers, and their scale behind them.
inline void quantise(const float* from, int inputs, Int8Weights::Input* to) {
  const Rounding rounding(from, inputs, largest_input(inputs));
  int k = 0;
  for (; k + kLanes <= inputs; k += kLanes)
    Int8Weights::put(rounding.take(load<Floats>(from + k)), to, k);
  for (; k < inputs; ++k) Int8Weights::put(rounding.take(from[k]), to, k);
  for (; k < round_up(inputs, Int8Weights::kStep); ++k) Int8Weights::put(0, to, k);
  std::memcpy(to + Int8Weights::scale_place(inputs), &rounding.scale, sizeof rounding.scale);
}

// Writes a row of floats as a product takes it.
template <class Weights>
inline void take_row(const float* from, int inputs, typename Weights::Input* to) {
  if constexpr (Weights::kQuantised)
    quantise(from, inputs, to);
  else
    put_row(from, inputs, to);
}

// A packed matrix: where the kind is quantised, a scale for each column, and a whole number that is
// added to each sum of the column; the panels behind them.
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
    int64_t head = Weights::kQuantised ? int64_t(panels(outputs)) * kPanel * 2 * sizeof(float) : 0;
    return head + panels(outputs) * panel_size(inputs) * sizeof(Stored);
  }

  int panels() const { return panels(outputs); }
  const Stored* panel(int p) const {
    return reinterpret_cast<const Stored*>(data + (bytes(outputs, 0))) + p * panel_size(inputs);
  }
  const float* scales(int p) const {
    return reinterpret_cast<const float*>(data) + int64_t(p) * 2 * kPanel;
  }
  const float* offsets(int p) const { return scales(p) + kPanel; }  // as 32-bit whole numbers

  // Packs panel `p` of row-major float32 [outputs][inputs]. `to` is room for the whole matrix.
  static void pack(const float* from, int outputs, int inputs, int p, char* to) {
    const Matrix packed{to, outputs, inputs};
    Stored* at = const_cast<Stored*>(packed.panel(p));
    std::memset(at, 0, panel_size(inputs) * sizeof(Stored));
    for (int n = p * kPanel; n < std::min(outputs, (p + 1) * kPanel); ++n) {
      const float* row = from + int64_t(n) * inputs;
      const float scale = scale_of(row, inputs);
      uint32_t total = 0;
      for (int k = 0; k < inputs; ++k) {
        const Stored weight = stored(row[k], scale);
        at[(k / Weights::kStep * kPanel + n % kPanel) * Weights::kStep + k % Weights::kStep] =
            weight;
        total += uint32_t(int64_t(weight));
      }
      if constexpr (Weights::kQuantised) {
        const uint32_t offset = -total * Weights::kOffset;
        std::memcpy(const_cast<float*>(packed.scales(p)) + n % kPanel, &scale, sizeof scale);
        std::memcpy(const_cast<float*>(packed.offsets(p)) + n % kPanel, &offset, sizeof offset);
      }
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

template <class Weights>
constexpr int step_bytes() {
  return kPanel * Weights::kStep * int(sizeof(typename Weights::Stored));
}

// The sums of a panel for some rows, while they are in registers.
template <class Weights, int Rows>
struct SumsOf {
  typedef typename Weights::Sum Sum;
  Sum held[Rows][kPanelVectors];

  inline void take(const float* sums) {
    for (int m = 0; m < Rows; ++m)
      for (int j = 0; j < kPanelVectors; ++j)
        held[m][j] = load<Sum>(sums + m * kPanel + j * kLanes);
  }
  inline void add(const typename Weights::Input* in, int stride,
                  const typename Weights::Stored* at) {
    Weights::template step<Rows>(in, stride, at, held);
  }
  inline void give(float* sums) const {
    for (int m = 0; m < Rows; ++m)
      for (int j = 0; j < kPanelVectors; ++j) store(sums + m * kPanel + j * kLanes, held[m][j]);
  }
};

#if HAS_ARM_BF16
template <int Rows>
struct SumsOf<Bfloat16Weights, Rows> : PairSums<Rows, kPanel> {};
#endif
#if HAS_ARM_BYTES
template <int Rows>
struct SumsOf<Int8Weights, Rows> : ByteSums<Rows, kPanel, Int8Weights::kBlock> {};
#endif

// Adds the products of some rows over inputs [from, to) to `sums`.
template <class Weights, int Rows, int Lines>
inline void add_rows(const typename Weights::Input* in, int stride,
                     const typename Weights::Stored* panel, int from, int to, float* sums,
                     Ahead<Lines> ahead) {
  SumsOf<Weights, Rows> held;
  held.take(sums);
  for (int k = from; k < to; k += Weights::kStep) {
    ahead.fetch();
    held.add(in + Weights::place(k), stride, panel + int64_t(k) * kPanel);
  }
  held.give(sums);
}

template <class Weights, int Lines, int Rows = Weights::kRows>
inline void add_rows_of(int rows, const typename Weights::Input* in, int stride,
                        const typename Weights::Stored* panel, int from, int to, float* sums,
                        Ahead<Lines> ahead) {
  if (rows == Rows)
    add_rows<Weights, Rows>(in, stride, panel, from, to, sums, ahead);
  else if constexpr (Rows > 1)
    add_rows_of<Weights, Lines, Rows - 1>(rows, in, stride, panel, from, to, sums, ahead);
}

// Adds the products of all rows over inputs [from, to), in groups of nearly equal size. Each group
// fetches its part of the weights that come next, so that reading and computing overlap evenly.
template <class Weights, int Lines>
inline void add_groups(const typename Weights::Input* in, int rows, int groups, int stride,
                       const typename Weights::Stored* panel, int from, int to, float* sums,
                       const char* next) {
  const int steps = (to - from) / Weights::kStep;
  const int line = step_bytes<Weights>() / (groups * Lines);
  for (int g = 0; g < groups; ++g) {
    const int first = rows * g / groups, count = rows * (g + 1) / groups - first;
    const Ahead<Lines> ahead{next + int64_t(g) * steps * Lines * line, line};
    add_rows_of<Weights, Lines>(count, in + int64_t(first) * stride, stride, panel, from, to,
                                sums + first * kPanel, ahead);
  }
}

// Bytes of weights that stay in the nearest cache while all rows pass by. Half of the cache is left
// to those that come next.
inline int stretch_bytes() {
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  static const long size = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  if (size > 0) return int(size / 2);
#endif
  return 16 << 10;
}

// Computes the sums of one panel for all rows.
//
// The weights pass in stretches. While all rows are multiplied by one, the next one is fetched: the
// processor's own prefetching falls behind where several rows take each weight.
template <class Weights>
inline void panel_by_vectors(const typename Weights::Input* in, int rows, int stride,
                             const Matrix<Weights>& matrix, int p, float* sums, const void* next) {
  constexpr int kStepLines = (step_bytes<Weights>() + kLine - 1) / kLine;
  static_assert(kStepLines <= 3, "from three groups on, a line in each step is enough");
  std::fill_n(sums, size_t(rows) * kPanel, 0.0f);
  const typename Weights::Stored* panel = matrix.panel(p);
  const int whole = round_up(matrix.inputs, Weights::kStep);
  const int stretch = std::max(1, stretch_bytes() / step_bytes<Weights>()) * Weights::kStep;
  const int groups = std::max(1, (rows + Weights::kRows - 1) / Weights::kRows);
  for (int from = 0; from < whole; from += stretch) {
    const int to = std::min(whole, from + stretch);
    const void* coming = to < whole ? panel + int64_t(to) * kPanel : next;
    const auto add = [&](auto lines) {
      add_groups<Weights, lines>(in, rows, groups, stride, panel, from, to, sums,
                                 static_cast<const char*>(coming));
    };
    if (groups == 1)
      add(std::integral_constant<int, kStepLines>{});
    else if (groups == 2)
      add(std::integral_constant<int, (kStepLines + 1) / 2>{});
    else
      add(std::integral_constant<int, 1>{});
  }
}

#if HAS_TILES

// Computes them by AMX.
//
// Rows go in groups of equal size. The last group begins as early as its size asks for: rows that
// are in two groups are computed twice, to equal bits.
template <class Weights>
inline void panel_by_tiles(const typename Weights::Input* in, int rows, int stride,
                           const Matrix<Weights>& matrix, int p, float* sums) {
  const int groups = (rows + kTileHeight - 1) / kTileHeight;
  const int group = groups ? (rows + groups - 1) / groups : 0;
  const size_t row_bytes = stride * sizeof(typename Weights::Input);
  const int bytes = round_up(matrix.inputs, Weights::kStep) * int(sizeof(typename Weights::Stored));
  const char* weights = reinterpret_cast<const char*>(matrix.panel(p));
  const auto begin = [&](int i) { return std::min(i * group, rows - group); };
  const auto inputs = [&](int row) { return reinterpret_cast<const char*>(in) + row * row_bytes; };
  if constexpr (Weights::kQuantised) {
    int32_t high[kTileHeight * kPanel];
    for (int i = 0; i < groups; ++i) {
      const char* from = inputs(begin(i));
      float* low = sums + begin(i) * kPanel;
      panel_sums<ByteTiles>(from + Weights::kBlock, from, group, row_bytes, 2 * kTileBytes, weights,
                            bytes, low, high);
      for (int n = 0; n < group * kPanel; n += kLanes)
        store(low + n, ByteSums{load<Ints>(high + n), load<Ints>(low + n)});
    }
  } else {
    for (int i = 0; i < groups; i += 2) {
      const int other = i + 1 < groups ? begin(i + 1) : -1;
      panel_sums<Bfloat16Tiles>(inputs(begin(i)), other < 0 ? nullptr : inputs(other), group,
                                row_bytes, kTileBytes, weights, bytes, sums + begin(i) * kPanel,
                                sums + std::max(0, other) * kPanel);
    }
  }
}

#endif

// Computes the sums of one panel for all rows, whichever way is the fastest. Where bits depend on
// the way, there is one way for any number of rows.
template <class Weights>
inline void panel_totals(const typename Weights::Input* in, int rows, int stride,
                         const Matrix<Weights>& matrix, int p, float* sums, const void* next) {
#if HAS_TILES
  if constexpr (std::is_same<Weights, Bfloat16Weights>::value || Weights::kQuantised)
    if (!Weights::kQuantised || rows > Weights::kRows)
      return panel_by_tiles(in, rows, stride, matrix, p, sums);
#endif
  panel_by_vectors(in, rows, stride, matrix, p, sums, next);
}

// Computes one panel of a product for all rows, into sums[rows][kPanel]. `next`: the weights that
// the member takes afterwards, as far as it is known.
template <class Weights>
inline void panel_product(const typename Weights::Input* in, int rows, int stride,
                          const Matrix<Weights>& matrix, int p, float* sums, const void* next) {
  panel_totals(in, rows, stride, matrix, p, sums, next);
  if constexpr (Weights::kQuantised)  // the sums are still whole numbers
    for (int m = 0; m < rows; ++m) {
      const typename Weights::Input* row = in + int64_t(m) * stride;
      const Floats scale = splat(load<float>(row + Weights::scale_place(matrix.inputs)));
      for (int n = 0; n < kPanel; n += kLanes) {
        float* at = sums + m * kPanel + n;
        const Ints whole = load<Ints>(at) + load<Ints>(matrix.offsets(p) + n);
        const Floats sum = __builtin_convertvector(whole, Floats);
        store(at, sum * load<Floats>(matrix.scales(p) + n) * scale);
      }
    }
}

}  // namespace velocity
