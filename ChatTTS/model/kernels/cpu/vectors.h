// Vectors of floats in the compiler's own notation, so that one source serves AVX-512, AVX2, NEON
// and later instruction sets. Only fused multiply-adds, and products of pairs, use intrinsics.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__) && defined(__AVX512BF16__)
#define HAS_BF16_PRODUCT 1
#else
#define HAS_BF16_PRODUCT 0
#endif

#if defined(__aarch64__) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define HAS_ARM_BF16 1
#else
#define HAS_ARM_BF16 0
#endif

#if HAS_BF16_PRODUCT && defined(__AVX512VNNI__) && defined(__AMX_BF16__) && defined(__AMX_INT8__)
#define HAS_TILES 1
#else
#define HAS_TILES 0
#endif

namespace chattts {

#if defined(__AVX512F__)
constexpr int kLanes = 16;        // floats of a vector
constexpr int kPanelVectors = 3;  // vectors across a panel of weights
constexpr int kTileRows = 8;      // rows of inputs that share the weights in registers
#elif defined(__AVX__)
constexpr int kLanes = 8;
constexpr int kPanelVectors = 2;
constexpr int kTileRows = 6;
#else
constexpr int kLanes = 4;
constexpr int kPanelVectors = 4;
constexpr int kTileRows = 4;
#endif
constexpr int kPanel = kPanelVectors * kLanes;  // columns of a panel

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4)));
typedef uint32_t Words __attribute__((vector_size(kLanes * 4)));
typedef uint16_t Halves __attribute__((vector_size(kLanes * 2)));

template <class Vector>
inline Vector load(const void* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class Vector>
inline void store(void* to, Vector v) {
  std::memcpy(to, &v, sizeof v);
}

constexpr int kLine = 64;  // bytes of a line of the cache, at least

// Lines that are fetched into the nearest cache with each step of a loop: `Lines` of them, `stride`
// bytes apart. Where there are none, as at the end of all, the addresses need not be valid.
template <int Lines>
struct Prefetch {
  const char* at;
  int stride;

  void fetch() {
    for (int i = 0; i < Lines; ++i, at += stride) __builtin_prefetch(at);
  }
};

inline Floats splat(float x) { return Floats{} + x; }

// a * b + c, rounded once where the processor can. A compiler would fuse some such sums and not
// others, depending on the code around them and on the processor it tunes for. So it is told to
// fuse none, and only this function does. Bits then depend on the instruction set alone.
inline Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}
inline Floats multiply_add(Floats a, Floats b, float c) { return multiply_add(a, b, splat(c)); }

// a * b + c, rounded once on every processor, so that the bits are those of all variants. Where the
// processor has no such instruction, the sum is rounded to odd in double first (Boldo and
// Melquiond, 2008): a plain sum in double would now and then be rounded to another float.
inline Floats fused(Floats a, Floats b, Floats c) {
#if defined(__FMA__) || defined(__aarch64__)
  return multiply_add(a, b, c);
#else
  typedef double Doubles __attribute__((vector_size(kLanes * 8)));
  typedef int64_t Longs __attribute__((vector_size(kLanes * 8)));
  const Doubles product = __builtin_convertvector(a, Doubles) * __builtin_convertvector(b, Doubles);
  const Doubles added = __builtin_convertvector(c, Doubles);
  const Doubles total = product + added, part = total - product;
  const Doubles error = (product - (total - part)) + (added - part);
  Longs bits;
  std::memcpy(&bits, &total, sizeof bits);
  const Longs is_inexact = (error > 0) | (error < 0), is_even = (bits & 1) == 0;
  const Longs outwards = ((error > 0) == (total > 0)) | 1;  // -1 where they agree, else 1
  bits -= is_inexact & is_even & outwards;
  Doubles odd;
  std::memcpy(&odd, &bits, sizeof odd);
  return __builtin_convertvector(odd, Floats);
#endif
}
inline Floats fused(Floats a, Floats b, float c) { return fused(a, b, splat(c)); }

inline constexpr int round_up(int n, int step) { return (n + step - 1) / step * step; }

// ---- bfloat16: the upper half of a float ----

typedef uint16_t bf16;

inline bf16 to_bf16(float x) {  // to nearest, ties to even; NaN stays NaN
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

inline float from_bf16(bf16 h) {
  uint32_t bits = uint32_t(h) << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

// A stored number as a float.
inline float plain(float x) { return x; }
inline float plain(bf16 x) { return from_bf16(x); }

inline Floats as_floats(Words bits) { return load<Floats>(&bits); }

// Stores a vector of floats as any stored kind, with the bits of to_bf16.
inline void put(float* to, Floats x) { store(to, x); }
inline void put(bf16* to, Floats x) {
  const Words bits = load<Words>(&x);
  const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, damaged = (bits >> 16) | 0x40;
  const Words upper = (bits & 0x7fffffff) > 0x7f800000 ? damaged : rounded;
  store(to, __builtin_convertvector(upper, Halves));
}
inline void put(float* to, float x) { *to = x; }
inline void put(bf16* to, float x) { *to = to_bf16(x); }

// Stores `count` floats as any stored kind.
template <class Stored>
inline void put_row(const float* from, int count, Stored* to) {
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) put(to + i, load<Floats>(from + i));
  for (; i < count; ++i) put(to + i, from[i]);
}

// Loads a vector of any stored kind as floats.
inline Floats widen(const float* from) { return load<Floats>(from); }
inline Floats widen(const bf16* from) {
  return as_floats(__builtin_convertvector(load<Halves>(from), Words) << 16);
}

typedef int8_t Bytes __attribute__((vector_size(kLanes)));
typedef int16_t Shorts __attribute__((vector_size(kLanes * 2)));

// GCC converts between bytes and wider numbers one by one, so it is told the instructions.
inline Floats widen(const int8_t* from) {
#if defined(__AVX512F__)
  const Ints whole = (Ints)_mm512_cvtepi8_epi32(load<__m128i>(from));
#elif defined(__AVX2__)
  const Ints whole = (Ints)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)from));
#else
  const Ints whole = __builtin_convertvector(load<Bytes>(from), Ints);
#endif
  return __builtin_convertvector(whole, Floats);
}

// The lowest bytes.
inline Bytes narrow(Ints x) {
#if defined(__AVX512F__)
  return (Bytes)_mm512_cvtepi32_epi8((__m512i)x);
#else
  return __builtin_convertvector(x, Bytes);
#endif
}

// Whole numbers nearest to x, ties to even, for |x| < 2^22: adding the constant rounds.
inline Ints nearest(Floats x) {
  const Floats magic = splat(12582912.0f);  // 1.5 * 2^23
  return __builtin_convertvector((x + magic) - magic, Ints);
}

// How numbers of a row are taken as whole numbers of at most `limit`: times `factor`, and back by
// `scale`. The scale is NaN where any number is not finite, so that damage is heard. A row that is
// next to nothing is nothing: its quotients would leave the range of floats.
struct Rounding {
  float factor, scale;

  Rounding(const float* row, int count, float limit) {
    Floats peaks = {}, checks = {};
    float peak = 0, check = 0;
    int i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const Floats x = load<Floats>(row + i), size = x < 0 ? -x : x;
      peaks = size > peaks ? size : peaks;
      checks += x * 0;
    }
    for (; i < count; ++i) {
      peak = std::fabs(row[i]) > peak ? std::fabs(row[i]) : peak;
      check += row[i] * 0;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      peak = peaks[lane] > peak ? peaks[lane] : peak;
      check += checks[lane];
    }
    const bool is_sound = check == 0, is_something = peak > 1e-30f;
    factor = is_sound && is_something ? limit / peak : 0;
    scale = !is_sound ? NAN : is_something ? peak / limit : 0;
  }

  Ints take(Floats x) const { return scale == scale ? nearest(x * factor) : Ints{}; }
  int take(float x) const { return scale == scale ? int(std::nearbyint(x * factor)) : 0; }
};

#if HAS_TILES

// sums + the products of each four weights and the one four of inputs, which have no sign.
inline Ints add_products(Ints sums, int32_t four, Ints weights) {
  return (Ints)_mm512_dpbusd_epi32((__m512i)sums, _mm512_set1_epi32(four), (__m512i)weights);
}

#elif defined(__AVX512BW__) || defined(__AVX2__)

#if defined(__AVX512BW__)
typedef __m512i Pairs;
#else
typedef __m256i Pairs;
#endif

// Pairs of eight bits as pairs of sixteen.
inline Pairs widen_pairs(const int8_t* from) {
#if defined(__AVX512BW__)
  return _mm512_cvtepi8_epi16(load<__m256i>(from));
#else
  return _mm256_cvtepi8_epi16(load<__m128i>(from));
#endif
}

// sums + a * x + b * y for each pair (a, b) and the one pair (x, y).
inline Ints add_products(Ints sums, int32_t pair, Pairs w) {
#if defined(__AVX512BW__) && defined(__AVX512VNNI__)
  return (Ints)_mm512_dpwssd_epi32((__m512i)sums, _mm512_set1_epi32(pair), w);
#elif defined(__AVX512BW__)
  return sums + (Ints)_mm512_madd_epi16(_mm512_set1_epi32(pair), w);
#elif defined(__AVXVNNI__)
  return (Ints)_mm256_dpwssd_avx_epi32((__m256i)sums, _mm256_set1_epi32(pair), w);
#else
  return sums + (Ints)_mm256_madd_epi16(_mm256_set1_epi32(pair), w);
#endif
}

#endif

// The first and the second members of a vector of bfloat16 pairs.
inline Floats even_members(Words pairs) { return as_floats(pairs << 16); }
inline Floats odd_members(Words pairs) { return as_floats(pairs & 0xffff0000u); }

// ---- functions ----

// e^x with a relative error of about 1e-7: 2^n times a polynomial of degree 6 (Taylor; |r| <=
// ln(2) / 2). Results that would be subnormal are 0, so that an impossible id stays impossible.
inline Floats exponential(Floats x) {
  const Floats low = splat(-87.0f), high = splat(88.0f);
  Floats bounded = x < low ? low : x;
  bounded = bounded > high ? high : bounded;
  const Floats magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
  Floats n = fused(bounded, splat(1.44269504f), magic) - magic;
  Floats r = fused(n, splat(-0.693359375f), bounded);
  r = fused(n, splat(2.12194440e-4f), r);
  Floats p = fused(r, splat(1.0f / 720), 1.0f / 120);
  p = fused(p, r, 1.0f / 24);
  p = fused(p, r, 1.0f / 6);
  p = fused(p, r, 0.5f);
  p = fused(p, r, 1.0f);
  p = fused(p, r, 1.0f);
  Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
  Floats result = x < low ? Floats{} : p * load<Floats>(&power);
  return x == x ? result : x;  // NaN stays NaN, so that damaged weights are seen
}

// A sum over a row, in an order that does not depend on the size of vectors: kSumLanes sums, and
// these in pairs. Numbers come kSumLanes at a time; a rest is for the caller.
constexpr int kSumLanes = 16;

struct Total {
  Floats parts[kSumLanes / kLanes] = {};

  // Calls act(part, place) for each vector of the numbers that begin at `place`.
  template <class Act>
  inline void each(int place, Act act) {
    for (int i = 0; i < kSumLanes / kLanes; ++i) act(parts[i], place + i * kLanes);
  }

  float sum() const {
    float lanes[kSumLanes];
    for (int i = 0; i < kSumLanes / kLanes; ++i) store(lanes + i * kLanes, parts[i]);
    for (int width = kSumLanes / 2; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    return lanes[0];
  }
};

}  // namespace chattts
