// Low-rank additions to products, for the rows that want them: down to some ranks, and up again.
//
// Every sum has a fixed order, whatever the rows, the members of the team and the size of vectors.
#pragma once

#include <algorithm>

#include "vectors.h"

extern "C" {

// The order and types of the fields are those of library.py.
// The products of a layer, in the order of an adapter's.
enum NativeProduct { kQkv = 0, kOut = 1, kGate = 2, kUp = 3, kDown = 4, kProducts = 5 };

// What an adapter adds to a product of a layer. `up` lies in the panels of the product's weights;
// `spans` has for each rank the outputs [begin, end) that are not all 0.
struct NativeLowRank {
  const float *down, *up;  // [rank][inputs], [panel][rank][kPanel]
  const int32_t* spans;    // [rank][2]
  int32_t rank;            // a rank of 0 adds nothing
};
}

namespace chattts {

constexpr int kRanksAtOnce = 4;  // as many sums as hide the delay of a multiply-add
constexpr int kRowsAtOnce = 4;   // rows that share the weights in registers

// Writes the products of a row `x` with `Ranks` rows of `down`, [rank][inputs], to `out`.
template <int Ranks, class Number>
inline void dots(const float* down, const Number* x, int inputs, float* out) {
  Total sums[Ranks];
  int k = 0;
  for (; k + kSumLanes <= inputs; k += kSumLanes)
    for (int j = 0; j < Ranks; ++j)
      sums[j].each(k, [&](Floats& part, int place) {
        part = fused(load<Floats>(down + size_t(j) * inputs + place), widen(x + place), part);
      });
  for (int j = 0; j < Ranks; ++j) {
    float total = sums[j].sum();
    for (int rest = k; rest < inputs; ++rest)
      total += down[size_t(j) * inputs + rest] * plain(x[rest]);
    out[j] = total;
  }
}

// Takes a row to the ranks [first, last) of an adapter.
template <class Number>
inline void to_ranks(const NativeLowRank& own, const Number* x, int inputs, int first, int last,
                     float* out) {
  int j = first;
  for (; j + kRanksAtOnce <= last; j += kRanksAtOnce)
    dots<kRanksAtOnce>(own.down + size_t(j) * inputs, x, inputs, out + j);
  for (; j < last; ++j) dots<1>(own.down + size_t(j) * inputs, x, inputs, out + j);
}

// Adds the outputs of a panel that begins at `column`, of the ranks of some rows with one adapter,
// to sums[kPanel] of each.
template <int Rows>
inline void from_ranks(const NativeLowRank& own, const float* const* ranks, int column,
                       float* const* sums) {
  Floats acc[Rows][kPanelVectors];
  for (int m = 0; m < Rows; ++m)
    for (int v = 0; v < kPanelVectors; ++v) acc[m][v] = load<Floats>(sums[m] + v * kLanes);
  for (int j = 0; j < own.rank; ++j) {
    if (own.spans[2 * j] >= column + kPanel || own.spans[2 * j + 1] <= column) continue;
    const float* up = own.up + size_t(column) * own.rank + j * kPanel;
    Floats weights[kPanelVectors];
    for (int v = 0; v < kPanelVectors; ++v) weights[v] = load<Floats>(up + v * kLanes);
    for (int m = 0; m < Rows; ++m) {
      const Floats x = splat(ranks[m][j]);
      for (int v = 0; v < kPanelVectors; ++v) acc[m][v] = fused(x, weights[v], acc[m][v]);
    }
  }
  for (int m = 0; m < Rows; ++m)
    for (int v = 0; v < kPanelVectors; ++v) store(sums[m] + v * kLanes, acc[m][v]);
}

// The same for a number of rows that is known when it runs, of at most kRowsAtOnce.
template <int Rows = kRowsAtOnce>
inline void from_ranks_of(int rows, const NativeLowRank& own, const float* const* ranks, int column,
                          float* const* sums) {
  if (rows == Rows)
    from_ranks<Rows>(own, ranks, column, sums);
  else if constexpr (Rows > 1)
    from_ranks_of<Rows - 1>(rows, own, ranks, column, sums);
}

}  // namespace chattts
