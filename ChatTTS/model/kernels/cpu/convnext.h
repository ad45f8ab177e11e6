// What a ConvNeXt block (Liu et al., 2022) in one dimension computes, on rows of channels.
//
// A block is a depthwise convolution over time, a LayerNorm and a perceptron over the channels,
// whose result is scaled and added to the block's input. A row goes through the same operations in
// the same order whatever rows are beside it: its bits depend on its window of inputs alone.
#pragma once

#include <vector>

#include "products.h"

extern "C" {

// The order and types of the fields are those of library.py. Vectors of floats are padded
// with zeros to a multiple of kRowStep.
struct NativeConvNeXtBlock {
  const float *taps, *taps_bias;  // [kernel][channels] and [channels]
  const float *norm, *norm_bias;
  const char* up;
  const float* up_bias;
  const char* down;
  const float *down_bias, *scale;
  int32_t kind;  // of the matrices: float32 or bfloat16
  int32_t channels, intermediate, kernel, dilation;
  float eps;
};
}

namespace chattts {

constexpr int kRowStep = 16;  // rows are padded to a multiple of it, a whole number of vectors
static_assert(kRowStep % kSumLanes == 0, "a row must be whole vectors, and whole steps of sums");
static_assert(kPanel % kRowStep == 0, "the panels must cover a row's padding");

inline int pieces(int n, int size) { return (n + size - 1) / size; }

// x Phi(x), as in torch's GELU without approximation, to 5e-7. The upper tail of the normal
// distribution comes from Abramowitz and Stegun, 7.1.26.
inline Floats gelu(Floats x) {
  const Floats zero = {};
  const Floats size = x < zero ? -x : x;
  const Floats t = 1.0f / multiply_add(size, splat(0.23164189f), 1.0f);  // 0.3275911 / sqrt(2)
  Floats p = multiply_add(t, splat(1.061405429f), -1.453152027f);
  p = multiply_add(p, t, 1.421413741f);
  p = multiply_add(p, t, -0.284496736f);
  p = multiply_add(p, t, 0.254829592f);
  const Floats tail = p * t * 0.5f * exponential(x * x * -0.5f);
  return multiply_add(-size, tail, x > zero ? x : zero);
}

// LayerNorm of a row. It overwrites the row, and sets the padding of the output to zero.
template <class Output>
inline void normalise(const float* weight, const float* bias, float eps, int channels, float* row,
                      Output* out) {
  const int width = round_up(channels, kRowStep);
  Total total, squares;
  for (int c = 0; c < width; c += kSumLanes)
    total.each(c, [&](Floats& part, int place) { part += load<Floats>(row + place); });
  const float mean = total.sum() / channels;
  for (int c = 0; c < width; c += kLanes) store(row + c, load<Floats>(row + c) - mean);
  std::fill(row + channels, row + width, 0.0f);
  for (int c = 0; c < width; c += kSumLanes)
    squares.each(c, [&](Floats& part, int place) {
      const Floats v = load<Floats>(row + place);
      part = multiply_add(v, v, part);
    });
  const float factor = 1.0f / std::sqrt(squares.sum() / channels + eps);
  for (int c = 0; c < width; c += kLanes)
    put(out + c, multiply_add(load<Floats>(row + c) * factor, load<Floats>(weight + c),
                              load<Floats>(bias + c)));
}

// The rows of all outputs that a layer computes in one call. An output depends on a window of
// consecutive input rows.
struct Rows {
  const float* in;
  float* out;
  std::vector<int> from, to;  // for each output the first row of its window, and its own row

  int count() const { return int(from.size()); }
};

// Rows of a product that one member takes at a time. Few rows are taken all at once: reading the
// weights is the cost then, so members share the panels and each panel is read once.
inline int tile_rows(int rows, int members) {
  constexpr int kMost = 48;
  if (rows <= kMost) return std::max(1, rows);
  const int tiles = round_up(pieces(rows, kMost), members);
  return round_up(pieces(rows, tiles), kTileRows);
}

// A product of all rows. Calls finish(row, column, sums) with the outputs and the padding behind
// them, a vector at a time. `sums` is the member's own room for a tile.
template <class Weights, class Finish>
inline void project(Team::Member& member, const typename Weights::Input* in, int rows, int stride,
                    const Matrix<Weights>& matrix, float* sums, Finish finish) {
  const int tile = tile_rows(rows, member.size), tiles = pieces(rows, tile);
  const int width = round_up(matrix.outputs, kRowStep);
  member.each(tiles * matrix.panels(), [&](int i) {
    const int p = i / tiles, first = i % tiles * tile, count = std::min(tile, rows - first);
    panel_product(in + size_t(first) * stride, count, stride, matrix, p, sums,
                  matrix.panel((i + 1) / tiles));
    const int column = p * kPanel, columns = std::min(kPanel, width - column);
    for (int row = 0; row < count; ++row)
      for (int n = 0; n < columns; n += kLanes)
        finish(first + row, column + n, load<Floats>(sums + row * kPanel + n));
  });
}

template <class Weights>
class ConvNeXt {
 public:
  typedef typename Weights::Input Input;

  explicit ConvNeXt(const NativeConvNeXtBlock& block)
      : block_(block),
        width_(round_up(block.channels, kRowStep)),
        inner_(round_up(block.intermediate, kRowStep)) {}

  // Computes the perceptron's inputs for one output. `row` is room for one row.
  void prepare(const float* window, float* row, Input* out) const {
    const size_t step = size_t(block_.dilation) * width_;
    for (int c = 0; c < width_; c += kLanes) {
      Floats total = load<Floats>(block_.taps_bias + c);
      for (int k = 0; k < block_.kernel; ++k)
        total = multiply_add(load<Floats>(window + k * step + c),
                             load<Floats>(block_.taps + size_t(k) * width_ + c), total);
      store(row + c, total);
    }
    normalise(block_.norm, block_.norm_bias, block_.eps, block_.channels, row, out);
  }

  // Computes the rest once all rows are prepared: `normed` is [rows][width], `inner` is room for
  // [rows][inner width].
  void perceptron(Team::Member& member, const Rows& rows, const Input* normed, Input* inner,
                  float* sums) const {
    const Matrix<Weights> up{block_.up, block_.intermediate, block_.channels};
    project(member, normed, rows.count(), width_, up, sums, [&](int i, int column, Floats sum) {
      const Floats y = sum + load<Floats>(block_.up_bias + column);
      put(inner + size_t(i) * inner_ + column, gelu(y));
    });
    const Matrix<Weights> down{block_.down, block_.channels, block_.intermediate};
    const int centre = block_.kernel / 2 * block_.dilation;
    project(member, inner, rows.count(), inner_, down, sums, [&](int i, int column, Floats sum) {
      const float* skip = rows.in + size_t(rows.from[i] + centre) * width_ + column;
      const Floats y = sum + load<Floats>(block_.down_bias + column);
      store(rows.out + size_t(rows.to[i]) * width_ + column,
            multiply_add(y, load<Floats>(block_.scale + column), load<Floats>(skip)));
    });
  }

 private:
  const NativeConvNeXtBlock& block_;
  const int width_, inner_;
};

}  // namespace chattts
