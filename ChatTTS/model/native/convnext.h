// A stack of ConvNeXt blocks (Liu et al., 2022) in one dimension, on rows of channels.
//
// A block is a depthwise convolution over time, a LayerNorm and a perceptron over the channels,
// whose result is scaled and added to the block's input. A member takes a tile of frames through a
// whole block, so that what lies between stays in its cache; the next block begins when all tiles
// are done, since its convolution reads beyond them. A frame goes through the same operations in
// the same order in whichever tile it lies: its bits depend on the frames within reach, and on
// nothing else. That holds for a sequence in pieces as well: a stack without padding gives only the
// frames that have their whole context, so each block gives fewer than it takes.
#pragma once

#include <vector>

#include "products.h"

extern "C" {

// The order and types are those of native/convnext.py. Vectors of floats are zero up to a multiple
// of kRowStep.
struct VelocityConvNeXtBlock {
  const float *taps, *taps_bias;  // [kernel][channels] and [channels]
  const float *norm, *norm_bias;
  const char* up;
  const float* up_bias;
  const char* down;
  const float *down_bias, *scale;
};

struct VelocityConvNeXt {
  const VelocityConvNeXtBlock* blocks;
  int32_t depth, channels, intermediate, kernel, dilation;
  int32_t padded;  // whether there is silence beyond the ends of a sequence, or just no output
  float eps;
};
}

namespace velocity {

constexpr int kRowStep = 16;  // rows are padded to a multiple of it, which every vector divides
static_assert(kRowStep % kLanes == 0, "a row must be whole vectors");

// x Phi(x), as in torch's GELU without approximation, to 5e-7. The upper tail of the normal
// distribution comes from Abramowitz and Stegun, 7.1.26.
inline Floats gelu(Floats x) {
  const Floats zero = {};
  const Floats size = x < zero ? -x : x;
  const Floats t = 1.0f / (1.0f + size * 0.23164189f);  // 0.3275911 / sqrt(2)
  Floats p = t * 1.061405429f - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const Floats tail = p * t * 0.5f * exponential(x * x * -0.5f);
  return (x > zero ? x : zero) - size * tail;
}

inline void put(float* to, Floats v) { store(to, v); }
#if HAS_BF16_PRODUCT
inline void put(bf16* to, Floats v) { store(to, _mm512_cvtneps_pbh((__m512)v)); }
#endif

template <class Weights>
class ConvNeXt {
 public:
  // For `batch` sequences of `frames` each, on `members` threads. Without padding there must be
  // more frames than all the blocks reach to.
  ConvNeXt(const VelocityConvNeXt& stack, int batch, int frames, int members)
      : stack_(stack),
        batch_(batch),
        frames_(frames),
        margin_(stack.padded ? 0 : stack.kernel / 2 * stack.dilation),
        width_(round_up(stack.channels, kRowStep)),
        inner_(round_up(stack.intermediate, kRowStep)) {
    // As many tiles for every member, and whole groups of rows that share a weight.
    const int count = batch * (frames - 2 * margin_);
    const int tiles = round_up(pieces(count, kMostFrames), members);
    tile_ = round_up(pieces(count, tiles), kTileRows);
    for (std::vector<float>& x : x_) x.resize(size_t(batch) * frames * width_);
    own_.resize(members);
    for (Own& own : own_) {
      own.row.resize(width_);
      own.normed.resize(size_t(tile_) * width_);
      own.inner.resize(size_t(tile_) * inner_);
      own.sums.resize(size_t(tile_) * kPanel);
    }
  }

  // in: [batch * frames][channels]; out alike, of the frames that are left.
  void forward(Team& team, const float* in, float* out) {
    const int channels = stack_.channels;
    team.run([&](Team::Member& member) {
      member.each(batch_ * frames_, [&](int row) {
        std::copy_n(in + size_t(row) * channels, channels, &x_[0][size_t(row) * width_]);
      });
      int frames = frames_;
      for (int b = 0; b < stack_.depth; ++b, frames -= 2 * margin_) {
        const int count = batch_ * (frames - 2 * margin_);
        member.each(pieces(count, tile_), [&](int i) {
          const int first = i * tile_;
          advance(stack_.blocks[b], frames, first, std::min(tile_, count - first),
                  x_[b % 2].data(), x_[(b + 1) % 2].data(), own_[member.rank]);
        });
      }
      member.each(batch_ * frames, [&](int row) {
        std::copy_n(&x_[stack_.depth % 2][size_t(row) * width_], channels,
                    out + size_t(row) * channels);
      });
    });
  }

 private:
  typedef typename Weights::Input Input;
  static constexpr int kMostFrames = 48;  // of a tile: what the perceptron keeps of it fits a cache

  struct Own {  // a member's own room
    std::vector<float> row, sums;
    std::vector<Input> normed, inner;
  };

  static int pieces(int n, int size) { return (n + size - 1) / size; }

  // The input row in the place of an output row, where a sequence has `frames` input rows.
  int place(int row, int frames) const {
    if (margin_ == 0) return row;
    return row + (2 * (row / (frames - 2 * margin_)) + 1) * margin_;
  }

  // Output rows [first, first + count) of one block, of sequences of `frames` input rows.
  void advance(const VelocityConvNeXtBlock& block, int frames, int first, int count,
               const float* from, float* to, Own& own) const {
    for (int i = 0; i < count; ++i) {
      convolve(block, from, frames, place(first + i, frames), own.row.data());
      normalise(block, own.row.data(), &own.normed[size_t(i) * width_]);
    }
    const Matrix<Weights> up{block.up, stack_.intermediate, stack_.channels};
    project(own.normed.data(), count, width_, up, own, [&](int i, int column, Floats sums) {
      const Floats y = sums + load<Floats>(block.up_bias + column);
      put(&own.inner[size_t(i) * inner_ + column], gelu(y));
    });
    const Matrix<Weights> down{block.down, stack_.channels, stack_.intermediate};
    project(own.inner.data(), count, inner_, down, own, [&](int i, int column, Floats sums) {
      const float* skip = from + size_t(place(first + i, frames)) * width_ + column;
      const Floats y = sums + load<Floats>(block.down_bias + column);
      store(to + size_t(first + i) * width_ + column,
            load<Floats>(skip) + y * load<Floats>(block.scale + column));
    });
  }

  // The depthwise convolution at one input row; beyond its sequence there is silence.
  void convolve(const VelocityConvNeXtBlock& block, const float* x, int frames, int row,
                float* out) const {
    std::copy_n(block.taps_bias, width_, out);
    for (int k = 0; k < stack_.kernel; ++k) {
      const int offset = (k - stack_.kernel / 2) * stack_.dilation, frame = row % frames + offset;
      if (frame < 0 || frame >= frames) continue;
      const float* from = x + (row + int64_t(offset)) * width_;
      const float* tap = block.taps + size_t(k) * width_;
      for (int c = 0; c < width_; c += kLanes)
        store(out + c, load<Floats>(out + c) + load<Floats>(from + c) * load<Floats>(tap + c));
    }
  }

  // LayerNorm of a row, which is overwritten; its padding is zero.
  void normalise(const VelocityConvNeXtBlock& block, float* row, Input* out) const {
    Floats total = {};
    for (int c = 0; c < width_; c += kLanes) total += load<Floats>(row + c);
    const float mean = sum(total) / stack_.channels;
    for (int c = 0; c < width_; c += kLanes) store(row + c, load<Floats>(row + c) - mean);
    std::fill(row + stack_.channels, row + width_, 0.0f);
    Floats squares = {};
    for (int c = 0; c < width_; c += kLanes) {
      const Floats v = load<Floats>(row + c);
      squares += v * v;
    }
    const float factor = 1.0f / std::sqrt(sum(squares) / stack_.channels + stack_.eps);
    for (int c = 0; c < width_; c += kLanes)
      put(out + c, load<Floats>(row + c) * factor * load<Floats>(block.norm + c) +
                       load<Floats>(block.norm_bias + c));
  }

  // One product of a tile; finish(row, column, sums) takes its outputs, a vector at a time.
  template <class Finish>
  void project(const Input* in, int rows, int stride, const Matrix<Weights>& matrix, Own& own,
               Finish finish) const {
    float* sums = own.sums.data();
    for (int p = 0; p < matrix.panels(); ++p) {
      panel_product(in, rows, stride, matrix, p, sums);
      const int column = p * kPanel, count = std::min(kPanel, matrix.outputs - column);
      for (int row = 0; row < rows; ++row)
        for (int n = 0; n < count; n += kLanes)
          finish(row, column + n, load<Floats>(sums + row * kPanel + n));
    }
  }

  const VelocityConvNeXt stack_;
  const int batch_, frames_, margin_, width_, inner_;
  int tile_;
  std::vector<float> x_[2];
  std::vector<Own> own_;
};

template <class Weights>
inline void run_convnext(Team& team, const VelocityConvNeXt& stack, const float* in, int batch,
                         int frames, float* out) {
  ConvNeXt<Weights>(stack, batch, frames, team.size()).forward(team, in, out);
}

}  // namespace velocity

extern "C" {

// in: [batch][frames][channels]; out alike, of fewer frames where nothing is padded; `kind` of the
// matrices.
void velocity_convnext(void* team, int kind, const VelocityConvNeXt* stack, const float* in,
                       int batch, int frames, float* out) {
  const auto run = kind == velocity::kFloat32    ? velocity::run_convnext<velocity::Float32Weights>
                   : kind == velocity::kBfloat16 ? velocity::run_convnext<velocity::Bfloat16Weights>
                                                 : velocity::run_convnext<velocity::Int8Weights>;
  run(*static_cast<velocity::Team*>(team), *stack, in, batch, frames, out);
}
}
