// Attention of one query over the blocks of its sequence, read where they lie.
//
// A block holds, for each layer, the keys of all heads and then the values of all heads:
//   keys   [head][d / kStep][position][kStep]   so that a vector spans positions
//   values [head][position][d]                  so that a vector spans d
// with positions and d rounded up to whole vectors. Scores are computed position by position and
// summed in the order of positions, so the bits depend on the sequence alone.
#pragma once

#include "vectors.h"

namespace velocity {

struct Float32Cache {
  typedef float Stored;
  static constexpr int kStep = 1;
  static Stored stored(float x) { return x; }
  static Floats widen(const Stored* at) { return load<Floats>(at); }
  // Adds q[d] * key[d] for the positions of one vector, to a sum for each of kStep members.
  static inline void add(Floats (&sums)[kStep], const float* q, const Stored* at) {
    sums[0] += splat(q[0]) * load<Floats>(at);
  }
};

struct Bfloat16Cache {
  typedef bf16 Stored;
  static constexpr int kStep = 2;
  static Stored stored(float x) { return to_bf16(x); }
  static Floats widen(const Stored* at) { return velocity::widen(at); }
  static inline void add(Floats (&sums)[kStep], const float* q, const Stored* at) {
    const Words pairs = load<Words>(at);
    sums[0] += splat(q[0]) * even_members(pairs);
    sums[1] += splat(q[1]) * odd_members(pairs);
  }
};

// The measures of a block.
struct BlockShape {
  int layers, heads, head_size, block_size;  // heads: of keys and values

  int positions() const { return round_up(block_size, kLanes); }
  int width() const { return round_up(head_size, kLanes); }
  int64_t head() const { return int64_t(positions()) * width(); }  // keys or values of a head
  int64_t layer() const { return 2 * heads * head(); }
  int64_t block() const { return layers * layer(); }
};

template <class Cache>
class Blocks {
 public:
  typedef typename Cache::Stored Stored;

  Blocks(void* pool, const BlockShape& shape, int layer, const int32_t* table)
      : shape_(shape), base_(static_cast<Stored*>(pool) + layer * shape.layer()), table_(table) {}

  void write(int position, int head, const float* key, const float* value) const {
    const int slot = position % shape_.block_size;
    Stored* keys = at(position / shape_.block_size, head);
    Stored* values = at(position / shape_.block_size, shape_.heads + head);
    for (int d = 0; d < shape_.head_size; ++d) {
      keys[(d / Cache::kStep * shape_.positions() + slot) * Cache::kStep + d % Cache::kStep] =
          Cache::stored(key[d]);
      values[slot * shape_.width() + d] = Cache::stored(value[d]);
    }
  }

  // softmax(q . keys * scale) . values over positions [0, length).
  //   q: [head_size]; scores: room for `length` rounded up to a whole block; out: [width]
  void attend(const float* q, int head, int length, float scale, float* scores, float* out) const {
    const int block_size = shape_.block_size;
    for (int start = 0, b = 0; start < length; start += block_size, ++b)
      score(q, at(b, head), std::min(block_size, length - start), scale, scores + start);
    const float total = normalise(scores, length);
    Floats sums[kMostVectors];
    const int vectors = shape_.width() / kLanes;
    for (int j = 0; j < vectors; ++j) sums[j] = Floats{};
    for (int start = 0, b = 0; start < length; start += block_size, ++b)
      weigh(scores + start, at(b, shape_.heads + head), std::min(block_size, length - start), sums);
    for (int j = 0; j < vectors; ++j) store(out + j * kLanes, sums[j] / total);
  }

  static constexpr int kMostVectors = 256 / kLanes;  // heads of at most 256

 private:
  Stored* at(int block, int part) const {
    return base_ + table_[block] * shape_.block() + part * shape_.head();
  }

  void score(const float* q, const Stored* keys, int count, float scale, float* scores) const {
    const int positions = shape_.positions();
    int t = 0;
    for (; t + 2 * kLanes <= positions && t < count; t += 2 * kLanes)
      score_vectors<2>(q, keys, t, count, scale, scores);
    if (t < count) score_vectors<1>(q, keys, t, count, scale, scores);
  }

  // Scores of some vectors of positions side by side, so that one need not wait for another.
  template <int Vectors>
  inline void score_vectors(const float* q, const Stored* keys, int t, int count, float scale,
                            float* scores) const {
    const int positions = shape_.positions();
    Floats sums[Vectors][Cache::kStep];
    for (auto& own : sums)
      for (Floats& part : own) part = Floats{};
    for (int d = 0; d < shape_.head_size; d += Cache::kStep)
      for (int j = 0; j < Vectors; ++j)
        Cache::add(sums[j], q + d,
                   keys + (d / Cache::kStep * positions + t + j * kLanes) * Cache::kStep);
    for (int j = 0; j < Vectors; ++j) {
      Floats total = sums[j][0];
      for (int part = 1; part < Cache::kStep; ++part) total += sums[j][part];
      total *= splat(scale);
      const int first = t + j * kLanes, valid = std::min(kLanes, count - first);
      if (valid == kLanes)
        store(scores + first, total);
      else if (valid > 0)
        std::memcpy(scores + first, &total, valid * sizeof(float));
    }
  }

  // Turns scores into exponentials; returns their sum.
  static float normalise(float* scores, int length) {
    float peak = scores[0];
    for (int t = 1; t < length; ++t) peak = scores[t] > peak ? scores[t] : peak;
    Floats total = {};
    int t = 0;
    for (; t + kLanes <= length; t += kLanes) {
      Floats e = exponential(load<Floats>(scores + t) - splat(peak));
      store(scores + t, e);
      total += e;
    }
    float rest = 0;
    for (; t < length; ++t) rest += scores[t] = exponential(splat(scores[t] - peak))[0];
    return sum(total) + rest;
  }

  void weigh(const float* weights, const Stored* values, int count, Floats* sums) const {
    const int width = shape_.width();
    if (width == kUsualVectors * kLanes)
      weigh_fixed<kUsualVectors>(weights, values, count, sums);
    else
      for (int t = 0; t < count; ++t)
        for (int j = 0; j < width / kLanes; ++j)
          sums[j] += splat(weights[t]) * Cache::widen(values + t * width + j * kLanes);
  }

  static constexpr int kUsualVectors = 64 / kLanes;  // heads of 64: sums stay in registers

  template <int Vectors>
  static inline void weigh_fixed(const float* weights, const Stored* values, int count,
                                 Floats* sums) {
    Floats held[Vectors];
    for (int j = 0; j < Vectors; ++j) held[j] = sums[j];
    for (int t = 0; t < count; ++t)
      for (int j = 0; j < Vectors; ++j)
        held[j] += splat(weights[t]) * Cache::widen(values + (t * Vectors + j) * kLanes);
    for (int j = 0; j < Vectors; ++j) sums[j] = held[j];
  }

  const BlockShape shape_;
  Stored* base_;
  const int32_t* table_;
};

}  // namespace velocity
