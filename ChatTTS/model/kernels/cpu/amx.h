// Products by AMX, whose eight registers hold tiles of up to 16 rows of 64 bytes.
//
// A tile of sums has 16 rows of inputs and 16 columns. One instruction adds to it the products of a
// tile of inputs and a tile of weights, which lies in a packed panel as it is.
#pragma once

#include <algorithm>

#include "vectors.h"

#if HAS_TILES

namespace chattts {

static_assert(kPanelVectors == 3 && kLanes == 16, "three tiles lie across a panel");

constexpr int kTileHeight = 16, kTileBytes = 64;
// From one row of sums to the next; from one group of inputs to the next in a panel.
constexpr size_t kPanelBytes = kPanel * 4;

// The compilers' own functions take tiles as literals only, and GCC's do not tell what they read.
template <int Tile>
inline void load_tile(const void* from, size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(Tile) : "memory");
}
template <int Tile>
inline void store_tile(void* to, size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(Tile) : "memory");
}

// What LDTILECFG reads: the shape of each tile (Intel's manual, volume 1, chapter 18).
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t heights[16] = {};
};

// Sets tiles 0 to 5 for sums of `rows` rows, tile 6 for `bytes` bytes of each row of inputs, and
// tile 7 for the weights of so many inputs. All are zero then.
inline void shape_tiles(int rows, int bytes) {
  TileShapes shapes;
  for (int tile = 0; tile < 8; ++tile) {
    shapes.heights[tile] = uint8_t(tile == 7 ? bytes / 4 : rows);
    shapes.row_bytes[tile] = uint16_t(tile == 6 ? bytes : kTileBytes);
  }
  asm volatile("ldtilecfg %0" ::"m"(shapes));
}

// Two accumulators of a panel: tiles 0 to 2, and 3 to 5.
template <int First>
inline void load_sums(const void* sums) {
  const char* at = static_cast<const char*>(sums);
  load_tile<First>(at, kPanelBytes);
  load_tile<First + 1>(at + kTileBytes, kPanelBytes);
  load_tile<First + 2>(at + 2 * kTileBytes, kPanelBytes);
}
template <int First>
inline void store_sums(void* sums) {
  char* at = static_cast<char*>(sums);
  store_tile<First>(at, kPanelBytes);
  store_tile<First + 1>(at + kTileBytes, kPanelBytes);
  store_tile<First + 2>(at + 2 * kTileBytes, kPanelBytes);
}

// Pairs of bfloat16. The even and the odd members are summed apart before both are added, so the
// bits are not those of AVX-512: products of one row are computed here, too.
struct Bfloat16Tiles {
  template <int Sum>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm7, %%tmm6, %%tmm%c0" ::"i"(Sum));
  }
};

// Inputs without a sign, and weights with one.
struct ByteTiles {
  template <int Sum>
  static void multiply() {
    asm volatile("tdpbusd %%tmm7, %%tmm6, %%tmm%c0" ::"i"(Sum));
  }
};

// Adds the products of two sets of inputs, or of one where `second` is null, to the accumulators.
// A step takes as many inputs as the tiles are shaped for, and the next one lies `ahead` bytes on.
template <class Tiles>
inline void add_tiles(const char* first, const char* second, size_t stride, int ahead,
                      const char* weights, int steps) {
  for (int i = 0; i < steps; ++i) {
    load_tile<6>(first, stride);
    load_tile<7>(weights, kPanelBytes);
    Tiles::template multiply<0>();
    load_tile<7>(weights + kTileBytes, kPanelBytes);
    Tiles::template multiply<1>();
    load_tile<7>(weights + 2 * kTileBytes, kPanelBytes);
    Tiles::template multiply<2>();
    if (second) {
      load_tile<6>(second, stride);
      Tiles::template multiply<5>();
      load_tile<7>(weights + kTileBytes, kPanelBytes);
      Tiles::template multiply<4>();
      load_tile<7>(weights, kPanelBytes);
      Tiles::template multiply<3>();
      second += ahead;
    }
    first += ahead;
    weights += kTileHeight * kPanelBytes;
  }
}

// Computes sums[rows][kPanel] and, where `second` is not null, others[rows][kPanel] for at most
// kTileHeight rows of `bytes` bytes of inputs.
template <class Tiles>
inline void panel_sums(const char* first, const char* second, int rows, size_t stride, int ahead,
                       const char* weights, int bytes, void* sums, void* others) {
  const int steps = bytes / kTileBytes, rest = bytes % kTileBytes;
  shape_tiles(rows, kTileBytes);
  add_tiles<Tiles>(first, second, stride, ahead, weights, steps);
  store_sums<0>(sums);
  if (second) store_sums<3>(others);
  if (rest) {
    shape_tiles(rows, rest);
    load_sums<0>(sums);
    if (second) load_sums<3>(others);
    const size_t done = size_t(steps) * ahead;
    add_tiles<Tiles>(first + done, second ? second + done : nullptr, stride, ahead,
                     weights + steps * kTileHeight * kPanelBytes, 1);
    store_sums<0>(sums);
    if (second) store_sums<3>(others);
  }
  asm volatile("tilerelease");
}

}  // namespace chattts

#endif
