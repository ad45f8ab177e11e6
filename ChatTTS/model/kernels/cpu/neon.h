// Products by the instructions of later 64-bit ARM processors: of bytes in fours, and of two rows
// with two columns of bytes or of bfloat16.
//
// Each of them sums in one order whatever the number of rows, so a row that is alone goes the same
// way, beside nothing.
#pragma once

#include "vectors.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_MATMUL_INT8)
#define HAS_MATRIX_BYTES 1
#else
#define HAS_MATRIX_BYTES 0
#endif
#if defined(__aarch64__) && (HAS_MATRIX_BYTES || defined(__ARM_FEATURE_DOTPROD))
#define HAS_ARM_BYTES 1
#else
#define HAS_ARM_BYTES 0
#endif

namespace chattts {

#if defined(__aarch64__)

// low and high += the products of eight weights with one input.
inline void add_products(Ints& low, Ints& high, int16x8_t weights, int16_t input) {
  low = (Ints)vmlal_n_s16((int32x4_t)low, vget_low_s16(weights), input);
  high = (Ints)vmlal_high_n_s16((int32x4_t)high, weights, input);
}

#endif

#if HAS_ARM_BF16

constexpr int kPairStep = 4;  // inputs of a step

// Sums of pairs of rows and pairs of columns: a vector has both columns of the first row, and then
// of the second one. A product rounds to odd and takes subnormal numbers as 0.
template <int Rows, int Panel>
struct PairSums {
  static constexpr int kPairs = (Rows + 1) / 2;
  float32x4_t held[kPairs][Panel / 2];

  static bool has_second(int pair) { return 2 * pair + 1 < Rows; }

  inline void take(const float* sums) {
    for (int i = 0; i < kPairs; ++i)
      for (int c = 0; c < Panel / 2; ++c) {
        const float* at = sums + 2 * i * Panel + 2 * c;
        held[i][c] = vcombine_f32(vld1_f32(at), vld1_f32(at + (has_second(i) ? Panel : 0)));
      }
  }
  inline void add(const bf16* in, int stride, const bf16* at) {
    bfloat16x8_t rows[kPairs];
    for (int i = 0; i < kPairs; ++i) {
      const bf16* first = in + 2 * i * stride;
      const bf16* second = has_second(i) ? first + stride : first;
      rows[i] = vreinterpretq_bf16_u16(vcombine_u16(vld1_u16(first), vld1_u16(second)));
    }
    for (int c = 0; c < Panel / 2; ++c) {
      const bfloat16x8_t columns = vreinterpretq_bf16_u16(vld1q_u16(at + 2 * c * kPairStep));
      for (int i = 0; i < kPairs; ++i) held[i][c] = vbfmmlaq_f32(held[i][c], rows[i], columns);
    }
  }
  inline void give(float* sums) const {
    for (int i = 0; i < kPairs; ++i)
      for (int c = 0; c < Panel / 2; ++c) {
        float* at = sums + 2 * i * Panel + 2 * c;
        vst1_f32(at, vget_low_f32(held[i][c]));
        if (has_second(i)) vst1_f32(at + Panel, vget_high_f32(held[i][c]));
      }
  }
};

#endif

#if HAS_MATRIX_BYTES

constexpr int kByteStep = 8;

// Sums of the products with the upper and with the lower bytes of inputs. A row's upper and lower
// bytes are the two rows of a product: a vector has the sums of both columns with the upper bytes,
// and then with the lower ones.
template <int Rows, int Panel, int Block>
struct ByteSums {
  static_assert(Block == kByteStep, "upper and lower bytes must be one vector");
  int32x4_t held[Rows][Panel / 2];

  inline void take(const float* sums) {
    for (int m = 0; m < Rows; ++m)
      for (int c = 0; c < Panel / 2; ++c)
        held[m][c] = vcombine_s32(vdup_n_s32(0), load<int32x2_t>(sums + m * Panel + 2 * c));
  }
  inline void add(const int8_t* in, int stride, const int8_t* at) {
    int8x16_t rows[Rows];
    for (int m = 0; m < Rows; ++m) rows[m] = vld1q_s8(in + m * stride);
    for (int c = 0; c < Panel / 2; ++c) {
      const int8x16_t columns = vld1q_s8(at + 2 * c * kByteStep);
      for (int m = 0; m < Rows; ++m) held[m][c] = vmmlaq_s32(held[m][c], rows[m], columns);
    }
  }
  inline void give(float* sums) const {
    for (int m = 0; m < Rows; ++m)
      for (int c = 0; c < Panel / 2; ++c) {
        const int32x2_t high = vshl_n_s32(vget_low_s32(held[m][c]), 8);
        store(sums + m * Panel + 2 * c, vadd_s32(high, vget_high_s32(held[m][c])));
      }
  }
};

#elif HAS_ARM_BYTES

constexpr int kByteStep = 4;

// Sums of the products with the upper and with the lower bytes of inputs.
template <int Rows, int Panel, int Block>
struct ByteSums {
  static constexpr int kVectors = Panel / 4;
  int32x4_t high[Rows][kVectors], low[Rows][kVectors];

  inline void take(const float* sums) {
    for (int m = 0; m < Rows; ++m)
      for (int j = 0; j < kVectors; ++j) {
        high[m][j] = vdupq_n_s32(0);
        low[m][j] = load<int32x4_t>(sums + m * Panel + 4 * j);
      }
  }
  inline void add(const int8_t* in, int stride, const int8_t* at) {
    int8x16_t columns[kVectors];
    for (int j = 0; j < kVectors; ++j) columns[j] = vld1q_s8(at + 4 * j * kByteStep);
    for (int m = 0; m < Rows; ++m) {
      const int8x16_t upper = fours(in + m * stride), lower = fours(in + m * stride + Block);
      for (int j = 0; j < kVectors; ++j) {
        high[m][j] = vdotq_s32(high[m][j], columns[j], upper);
        low[m][j] = vdotq_s32(low[m][j], columns[j], lower);
      }
    }
  }
  inline void give(float* sums) const {
    for (int m = 0; m < Rows; ++m)
      for (int j = 0; j < kVectors; ++j)
        store(sums + m * Panel + 4 * j, vaddq_s32(low[m][j], vshlq_n_s32(high[m][j], 8)));
  }

 private:
  static int8x16_t fours(const int8_t* from) {  // the same four bytes in every lane
    return vreinterpretq_s8_s32(vdupq_n_s32(load<int32_t>(from)));
  }
};

#endif

}  // namespace chattts
