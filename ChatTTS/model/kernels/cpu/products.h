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

#include "team.h"
#include "vectors.h"
#include "weights.h"

namespace chattts {

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
        if constexpr (Weights::kQuantised) total += uint32_t(int64_t(weight));
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
                     Prefetch<Lines> ahead) {
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
                        Prefetch<Lines> ahead) {
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
    const Prefetch<Lines> ahead{next + int64_t(g) * steps * Lines * line, line};
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

}  // namespace chattts
