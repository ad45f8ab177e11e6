// Attention of one query over the blocks of its sequence, read where they lie.
//
// A block holds, for each layer, the keys of all heads and then the values of all heads:
//   keys   [head][d / kStep][position][kStep]   so that a vector spans positions
//   values [head][position][d]                  so that a vector spans d
// with positions and d rounded up to whole vectors. Where they are whole numbers, the scales of a
// head's positions lie behind its keys, and behind its values. Scores are computed position by
// position and summed in the order of positions, so the bits depend on the sequence alone.
#pragma once

#include "vectors.h"

namespace chattts {

struct Float32Cache {
  typedef float Stored;
  static constexpr int kStep = 1;
  static constexpr bool kScaled = false;
  static Floats widen(const Stored* at) { return load<Floats>(at); }
  static Floats multiply(Floats a, Floats b, Floats c) { return multiply_add(a, b, c); }
  // Adds q[d] * key[d] for the positions of one vector, to one sum for each of kStep values of d.
  static inline void add(Floats (&sums)[kStep], const float* q, const Stored* at) {
    sums[0] = multiply_add(splat(q[0]), load<Floats>(at), sums[0]);
  }
};

struct Bfloat16Cache {
  typedef bf16 Stored;
  static constexpr int kStep = 2;
  static constexpr bool kScaled = false;
  static Floats widen(const Stored* at) { return chattts::widen(at); }
  static Floats multiply(Floats a, Floats b, Floats c) { return multiply_add(a, b, c); }
  static inline void add(Floats (&sums)[kStep], const float* q, const Stored* at) {
    const Words pairs = load<Words>(at);
    sums[0] = multiply_add(splat(q[0]), even_members(pairs), sums[0]);
    sums[1] = multiply_add(splat(q[1]), odd_members(pairs), sums[1]);
  }
};

// Eight bits a number, with a scale for each key and each value of a head.
struct Int8Cache {
  typedef int8_t Stored;
  static constexpr int kStep = 1;
  static constexpr bool kScaled = true;
  static Floats widen(const Stored* at) { return chattts::widen(at); }
  static inline void add(Floats (&sums)[kStep], const float* q, const Stored* at) {
    sums[0] = multiply(splat(q[0]), widen(at), sums[0]);
  }
  // Weights in eight bits give the same codes on every processor.
  static Floats multiply(Floats a, Floats b, Floats c) { return fused(a, b, c); }
};

// The sizes of a block; those of memory are in bytes.
struct BlockShape {
  int layers, heads, head_size, block_size;  // heads: of keys and values

  int positions() const { return round_up(block_size, kLanes); }
  int width() const { return round_up(head_size, kLanes); }
  template <class Cache>
  int64_t numbers() const {  // the keys or values of a head, without their scales
    return int64_t(positions()) * width() * sizeof(typename Cache::Stored);
  }
  template <class Cache>
  int64_t head() const {
    return numbers<Cache>() + (Cache::kScaled ? positions() * sizeof(float) : 0);
  }
  template <class Cache>
  int64_t layer() const {
    return 2 * heads * head<Cache>();
  }
  template <class Cache>
  int64_t block() const {
    return layers * layer<Cache>();
  }
};

template <class Cache>
class Blocks {
 public:
  typedef typename Cache::Stored Stored;

  Blocks(void* pool, const BlockShape& shape, int layer, const int32_t* table)
      : shape_(shape),
        base_(static_cast<char*>(pool) + layer * shape.layer<Cache>()),
        table_(table) {}

  static constexpr int kMostAtOnce = 64;  // even, so that steps stay whole

  void write(int position, int head, const float* key, const float* value) const {
    const int block = position / shape_.block_size, slot = position % shape_.block_size;
    Stored* keys = at(block, head);
    Stored* values = at(block, shape_.heads + head);
    if constexpr (Cache::kScaled) {
      const Rounding of_key(key, shape_.head_size, kLargest);
      const Rounding of_value(value, shape_.head_size, kLargest);
      scales(keys)[slot] = of_key.scale;
      scales(values)[slot] = of_value.scale;
      put_key(slot, key, keys, [&](const float* from, int count, Stored* to) {
        put_rounded(of_key, from, count, to);
      });
      put_rounded(of_value, value, shape_.head_size, values + slot * shape_.width());
    } else {
      put_key(slot, key, keys, put_row<Stored>);
      put_row(value, shape_.head_size, values + slot * shape_.width());
    }
  }

  // softmax(q . keys * scale) . values over positions [0, length), for heads [first, last).
  //
  // The heads of a block lie side by side, and memory is fast where it is read straight on: so all
  // heads of one block are computed before the next block.
  //   q: [heads][head_size], all of them; group: heads that share keys and values
  //   scores: [last - first][room], room for `length` rounded up to a whole block and kSumLanes
  //           more; the last one holds the sum of the exponentials
  //   out: [last - first][width]
  void attend(const float* q, int first, int last, int group, int length, float scale,
              float* scores, int room, float* out) const {
    const int block_size = shape_.block_size, width = shape_.width(), heads = last - first;
    const int blocks = (length + block_size - 1) / block_size, pieces = blocks * heads;
    // Keys, and then values, of a block and head after the other.
    const auto piece = [&](int i) {
      const int kind = i / pieces, b = i % pieces / heads, h = first + i % heads;
      return at(b, kind * shape_.heads + h / group);
    };
    const auto ahead = [&](int i) {
      return reinterpret_cast<const char*>(piece(std::min(i + kPiecesAhead, 2 * pieces - 1)));
    };
    for (int i = 0; i < pieces; ++i) {
      const int start = i / heads * block_size, h = i % heads;
      score(q + (first + h) * shape_.head_size, piece(i), std::min(block_size, length - start),
            scale, scores + h * room + start, ahead(i));
    }
    std::memset(out, 0, heads * width * sizeof(float));
    for (int h = 0; h < heads; ++h)
      scores[(h + 1) * room - 1] = normalise(scores + h * room, length);
    for (int i = 0; i < pieces; ++i) {
      const int start = i / heads * block_size, h = i % heads;
      weigh(scores + h * room + start, piece(pieces + i), std::min(block_size, length - start),
            out + h * width, ahead(pieces + i));
    }
    for (int h = 0; h < heads; ++h)
      for (int i = h * width; i < (h + 1) * width; i += kLanes)
        store(out + i, load<Floats>(out + i) / scores[(h + 1) * room - 1]);
  }

 private:
  static constexpr float kLargest = 127;  // of a rounded number

  // Bytes of keys that a step over two vectors of positions reads, and what is fetched meanwhile.
  static constexpr int kKeyBytes = 2 * kLanes * Cache::kStep * sizeof(Stored);
  typedef Prefetch<(kKeyBytes + kLine - 1) / kLine> KeyLines;
  // What is fetched while the values of a position are read, 64 numbers.
  typedef Prefetch<sizeof(Stored)> ValueLines;

  Stored* at(int block, int part) const {
    return reinterpret_cast<Stored*>(base_ + table_[block] * shape_.block<Cache>() +
                                     part * shape_.head<Cache>());
  }

  // The scales behind the keys or values of a head.
  float* scales(Stored* numbers) const {
    return reinterpret_cast<float*>(reinterpret_cast<char*>(numbers) + shape_.numbers<Cache>());
  }

  // Writes the numbers of a key, which lie apart: some of them at a time become a row first, by
  // put(from, count, row).
  template <class Put>
  void put_key(int slot, const float* key, Stored* keys, Put put) const {
    Stored row[kMostAtOnce];
    for (int first = 0; first < shape_.head_size; first += kMostAtOnce) {
      const int count = std::min(kMostAtOnce, shape_.head_size - first);
      put(key + first, count, row);
      for (int d = 0; d < count; ++d)
        keys[((first + d) / Cache::kStep * shape_.positions() + slot) * Cache::kStep +
             d % Cache::kStep] = row[d];
    }
  }

  static void put_rounded(const Rounding& rounding, const float* from, int count, Stored* to) {
    int d = 0;
    for (; d + kLanes <= count; d += kLanes)
      store(to + d, narrow(rounding.take(load<Floats>(from + d))));
    for (; d < count; ++d) to[d] = Stored(rounding.take(from[d]));
  }

  // Scores the positions of a block. Meanwhile it fetches as many bytes at `ahead`.
  void score(const float* q, Stored* keys, int count, float scale, float* scores,
             const char* ahead) const {
    const int positions = shape_.positions();
    KeyLines lines{ahead, std::min(kLine, kKeyBytes)};
    int t = 0;
    for (; t + 2 * kLanes <= positions && t < count; t += 2 * kLanes)
      score_vectors<2>(q, keys, t, count, scale, scores, lines);
    if (t < count) score_vectors<1>(q, keys, t, count, scale, scores, lines);
  }

  // Scores of some vectors of positions side by side, so that one need not wait for another.
  template <int Vectors>
  inline void score_vectors(const float* q, Stored* keys, int t, int count, float scale,
                            float* scores, KeyLines& lines) const {
    const int positions = shape_.positions();
    Floats sums[Vectors][Cache::kStep];
    for (auto& own : sums)
      for (Floats& part : own) part = Floats{};
    for (int d = 0; d < shape_.head_size; d += Cache::kStep) {
      lines.fetch();
      for (int j = 0; j < Vectors; ++j)
        Cache::add(sums[j], q + d,
                   keys + (d / Cache::kStep * positions + t + j * kLanes) * Cache::kStep);
    }
    for (int j = 0; j < Vectors; ++j) {
      Floats total = sums[j][0];
      for (int part = 1; part < Cache::kStep; ++part) total += sums[j][part];
      total *= splat(scale);
      if constexpr (Cache::kScaled) total *= load<Floats>(scales(keys) + t + j * kLanes);
      const int first = t + j * kLanes, valid = std::min(kLanes, count - first);
      if (valid == kLanes)
        store(scores + first, total);
      else if (valid > 0)
        std::memcpy(scores + first, &total, valid * sizeof(float));
    }
  }

  // Turns scores into exponentials; returns their sum. It writes on to the next kSumLanes.
  static float normalise(float* scores, int length) {
    const int whole = round_up(length, kSumLanes);
    std::fill(scores + length, scores + whole, -INFINITY);
    Floats peaks = load<Floats>(scores);
    for (int t = kLanes; t < whole; t += kLanes) {
      const Floats x = load<Floats>(scores + t);
      peaks = x > peaks ? x : peaks;
    }
    float peak = peaks[0];
    for (int lane = 1; lane < kLanes; ++lane) peak = peaks[lane] > peak ? peaks[lane] : peak;
    Total total;
    for (int t = 0; t < whole; t += kSumLanes)
      total.each(t, [&](Floats& part, int place) {
        const Floats e = exponential(load<Floats>(scores + place) - splat(peak));
        store(scores + place, e);
        part += e;
      });
    return total.sum();
  }

  // Adds the weighted values of a block to sums [width].
  void weigh(const float* weights, Stored* values, int count, float* sums,
             const char* ahead) const {
    const int width = shape_.width();
    ValueLines lines{ahead, kLine};
    if (width == kUsualVectors * kLanes)
      weigh_vectors<kUsualVectors>(weights, scales(values), values, count, width, sums, lines);
    else
      for (int i = 0; i < width; i += kLanes)
        weigh_vectors<1>(weights, scales(values), values + i, count, width, sums + i, lines);
  }

  // Keys or values of that many heads are fetched ahead.
  static constexpr int kPiecesAhead = 2;
  static constexpr int kUsualVectors = 64 / kLanes;  // heads of 64: all sums stay in registers

  template <int Vectors>
  static inline void weigh_vectors(const float* weights, const float* scales_of_values,
                                   const Stored* values, int count, int width, float* sums,
                                   ValueLines& lines) {
    Floats held[Vectors];
    for (int j = 0; j < Vectors; ++j) held[j] = load<Floats>(sums + j * kLanes);
    for (int t = 0; t < count; ++t) {
      lines.fetch();
      float weight = weights[t];
      if constexpr (Cache::kScaled) weight *= scales_of_values[t];
      for (int j = 0; j < Vectors; ++j)
        held[j] =
            Cache::multiply(splat(weight), Cache::widen(values + t * width + j * kLanes), held[j]);
    }
    for (int j = 0; j < Vectors; ++j) store(sums + j * kLanes, held[j]);
  }

  const BlockShape shape_;
  char* base_;
  const int32_t* table_;
};

}  // namespace chattts
