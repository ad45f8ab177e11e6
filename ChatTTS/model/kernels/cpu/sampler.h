// Draws one id from the logits of one codebook, in the order of processors.py: temperature,
// penalty, top-p, top-k, forbidden end, draw by inverting the cumulative distribution.
// Probabilities are whole numbers, as there.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "vectors.h"

extern "C" {

// The order and types of the fields are those of library.py.
struct NativeDraw {
  float temperature, top_p, penalty;
  int32_t top_k, forbidden;  // an id that must not be drawn, or -1
  int32_t position;
  uint64_t seed;
  uint32_t stream, sample, utterance;  // counter words 1 to 3, without the group of codebooks
  int32_t history, stride;             // positions in the window, and ids of each position
  const int32_t* window;               // [history][stride]
};
}

namespace chattts {

constexpr int kMinKept = 3;

// Philox-4x32-10 (Salmon et al. 2011).
inline void philox(uint32_t (&x)[4], uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t(0xD2511F53u) * x[0], p1 = uint64_t(0xCD9E8D57u) * x[2];
    x[0] = uint32_t(p1 >> 32) ^ x[1] ^ k0;
    x[1] = uint32_t(p1);
    x[2] = uint32_t(p0 >> 32) ^ x[3] ^ k1;
    x[3] = uint32_t(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// Returns the 24 random bits of one draw; random_numbers.py describes the counter.
inline int64_t random_bits(const NativeDraw& draw, int codebook) {
  uint32_t x[4] = {uint32_t(draw.position), draw.stream | uint32_t(codebook / 4), draw.sample,
                   draw.utterance};
  philox(x, uint32_t(draw.seed), uint32_t(draw.seed >> 32));
  return x[codebook % 4] >> 8;
}

// Returns total * bits / 2^24, rounded down, without overflowing products.
inline int64_t share(int64_t total, int64_t bits) {
  return (total >> 24) * bits + (((total & 0xFFFFFF) * bits) >> 24);
}

class LaneSampler {
 public:
  // Draws one id from logits[size], and sets its log-probability under the unprocessed logits.
  // Returns -1 if a logit is not finite.
  int draw(const float* logits, int size, const NativeDraw& settings, int codebook,
           float* logprob) {
    const float plain_norm = log_sum(logits, size);
    if (!std::isfinite(plain_norm)) return -1;
    prepare(logits, size, settings, codebook);
    keep_top(settings);
    std::sort(order_.begin(), order_.end());
    if (settings.forbidden >= 0) forbid(settings.forbidden);
    const int id = settings.temperature == 0 ? best() : random(settings, codebook);
    *logprob = logits[id] - plain_norm;
    return id;
  }

 private:
  // Returns log(sum(exp(x))), which is not finite if any of x is not.
  static float log_sum(const float* x, int size) {
    float peak = x[0], check = 0;
    for (int i = 0; i < size; ++i) {
      peak = x[i] > peak ? x[i] : peak;
      check += x[i] * 0.0f;
    }
    return check == 0 ? peak + std::log(exponentials(x, size, peak, nullptr)) : NAN;
  }

  static float exponentials(const float* x, int size, float peak, float* to) {
    Total total;
    int i = 0;
    for (; i + kSumLanes <= size; i += kSumLanes)
      total.each(i, [&](Floats& part, int place) {
        const Floats e = exponential(load<Floats>(x + place) - splat(peak));
        if (to != nullptr) store(to + place, e);
        part += e;
      });
    float rest = 0;
    for (; i < size; ++i) {
      const float e = exponential(splat(x[i] - peak))[0];
      if (to != nullptr) to[i] = e;
      rest += e;
    }
    return total.sum() + rest;
  }

  void prepare(const float* logits, int size, const NativeDraw& s, int codebook) {
    x_.assign(logits, logits + size);
    if (s.temperature != 0 && s.temperature != 1)
      for (float& x : x_) x /= s.temperature;
    if (s.penalty != 1) {
      for (int i = 0; i < s.history; ++i) {
        const int id = s.window[i * s.stride + codebook];
        int count = 0, before = 0;
        for (int j = 0; j < s.history; ++j) {
          const bool same = s.window[j * s.stride + codebook] == id;
          count += same;
          before += same && j < i;
        }
        if (before > 0) continue;  // counted at its first place
        double power = 1;          // a library's pow is not equal on every system
        for (int j = 0; j < count; ++j) power *= s.penalty;
        const float factor = float(power);
        x_[id] = x_[id] > 0 ? x_[id] / factor : x_[id] * factor;
      }
    }
    // Values that an extreme setting made infinite or NaN must not reach the draw.
    constexpr float most = std::numeric_limits<float>::max();
    for (float& x : x_) x = x != x ? 0.0f : std::min(std::max(x, -most), most);
  }

  // Returns a probability as a whole number; that of the best id becomes 2^40. It is rounded up, so
  // that a probability above zero has a weight above zero.
  static int64_t weight(float p) { return int64_t(std::ceil(double(p) * 0x1p40)); }

  // Collects the most probable ids, best first, as many as top-p and top-k leave.
  void keep_top(const NativeDraw& s) {
    const int size = int(x_.size());
    const float peak = *std::max_element(x_.begin(), x_.end());
    p_.resize(size);
    exponentials(x_.data(), size, peak, p_.data());
    weights_.resize(size);
    order_.resize(size);
    int64_t rest = 0;  // weight of the ids that are not kept so far
    for (int i = 0; i < size; ++i) {
      order_[i] = i;
      rest += weights_[i] = weight(p_[i]);
    }
    // 1 - top_p is a multiple of 2^-24, so this is exact.
    const int64_t limit = share(rest, int64_t((1 - s.top_p) * 0x1p24f));
    const auto below = [this](int a, int b) { return x_[a] != x_[b] ? x_[a] < x_[b] : a < b; };
    std::make_heap(order_.begin(), order_.end(), below);
    auto end = order_.end();
    int kept = 0;
    while (kept < size && (kept < kMinKept || (kept < s.top_k && rest > limit))) {
      std::pop_heap(order_.begin(), end, below);
      rest -= weights_[*--end];
      ++kept;
    }
    order_.erase(order_.begin(), end);
  }

  // Takes an id out, and computes the other probabilities again: relative to a very probable id
  // they may all have been 0.
  void forbid(int forbidden) {
    const auto end = std::remove(order_.begin(), order_.end(), forbidden);
    if (end == order_.end()) return;
    order_.erase(end, order_.end());
    const float peak = x_[best()];
    for (int id : order_) weights_[id] = weight(exponential(splat(x_[id] - peak))[0]);
  }

  int best() const {  // the first one of equals
    return *std::max_element(order_.begin(), order_.end(),
                             [this](int a, int b) { return x_[a] < x_[b]; });
  }

  int random(const NativeDraw& s, int codebook) const {
    int64_t total = 0;
    for (int id : order_) total += weights_[id];
    const int64_t target = share(total, random_bits(s, codebook));
    int64_t reached = 0;
    for (int id : order_) {
      reached += weights_[id];
      if (reached > target) return id;
    }
    return order_.back();
  }

  std::vector<float> x_, p_;
  std::vector<int64_t> weights_;
  std::vector<int> order_;
};

}  // namespace chattts
