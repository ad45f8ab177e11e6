// The decoder's layers over the next frames of many utterances, each with a state.
//
// A layer's output depends on a window of input rows. The first rows of an utterance have rows of
// zeros before them, the last ones have rows of zeros behind them. Between calls a state keeps, for
// each layer, the rows that later outputs need again. So nothing is computed twice, and no bit of
// the outputs depends on how the utterance was cut into pieces.
//
// In a call the rows of all utterances go through a layer together, so that its weights are read
// once. The number of rows in every layer is known before the first layer runs.
#pragma once

#include <memory>
#include <new>
#include <utility>

#include "convnext.h"

extern "C" {

// The order and types of the fields are those of library.py. Each type of layer uses the
// fields that LayerType names. Matrices are float32, but for those of ConvNeXt blocks.
struct NativeDecoderLayer {
  int32_t type;
  int32_t inputs, outputs;            // channels
  int32_t kernel, dilation, padding;  // rows that an output depends on; rows of zeros at each end
  int32_t gelu;
  float number;
  const char* matrix;
  const float *weight, *bias;
  const NativeConvNeXtBlock* block;
};

struct NativeDecoderInput {
  float* kept;        // the state, layer after layer: [span - 1][inputs, padded]
  const float* rows;  // [count][inputs of the first layer]
  float* out;         // [ready][outputs of the last layer]
  int64_t seen;       // rows of the utterance in earlier calls
  int32_t count;
  int32_t last;  // whether the utterance ends with these rows
};
}

namespace chattts {

enum LayerType {
  kConvolution = 0,  // matrix [outputs][kernel][inputs, padded], bias; then a GELU if `gelu` is set
  kNorm = 1,         // LayerNorm: weight, bias; number is eps
  kBlock = 2,        // ConvNeXt: block
  kSpectrum = 3,     // logs and phases to real and imaginary parts; number limits magnitudes
  kOverlap = 4,      // sums of frames, divided by sums of weight [inputs - 1] over the frames
                     // that exist; the last input is 1 for those and 0 for padding
};

// Uninitialised memory that begins at a cache line.
class Room {
 public:
  explicit Room(size_t bytes) : data_(::operator new(bytes, kAlignment)) {}
  Room(Room&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  ~Room() { ::operator delete(data_, kAlignment); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  void* data_;
};

class DecoderCall {
 public:
  DecoderCall(const NativeDecoderLayer* layers, int depth, const NativeDecoderInput* inputs,
              int count, int members)
      : layers_(layers), depth_(depth), inputs_(inputs), count_(count), steps_(depth + 1) {
    plan();
    reserve(members);
  }

  void run(Team& team) {
    team.run([&](Team::Member& member) {
      member.each(count_, [&](int u) { enter(u); });
      for (int l = 0; l < depth_; ++l) advance(member, l);
      member.each(count_, [&](int u) { leave(u); });
    });
  }

 private:
  // The rows of one utterance among the input rows of a layer.
  struct Part {
    int first;        // its first row among those of all utterances
    int kept, fresh;  // rows from the state, and new rows
    int rows;         // these, and the zeros behind an utterance's last row
    int outputs;
  };

  struct Step {
    std::vector<Part> parts;
    Rows rows;
    int width = 0, total = 0;  // of a row, and rows of all utterances
    size_t kept_at = 0;        // where the layer's part of a state begins
  };

  static int span(const NativeDecoderLayer& layer) {
    return (layer.kernel - 1) * layer.dilation + 1;
  }

  // How many outputs so many inputs give.
  static int64_t ready(const NativeDecoderLayer& layer, int64_t inputs, bool last) {
    return std::max<int64_t>(0, inputs + layer.padding * (last ? 2 : 1) - span(layer) + 1);
  }

  void plan() {
    std::vector<int64_t> before(count_), after(count_);
    for (int u = 0; u < count_; ++u) {
      before[u] = inputs_[u].seen;
      after[u] = before[u] + inputs_[u].count;
    }
    for (int l = 0; l <= depth_; ++l) {
      Step& step = steps_[l];
      step.width = round_up(l < depth_ ? layers_[l].inputs : layers_[l - 1].outputs, kRowStep);
      for (int u = 0; u < count_; ++u) {
        const bool last = inputs_[u].last;
        Part part{step.total, 0, int(after[u] - before[u]), 0, 0};
        if (l < depth_) {
          const NativeDecoderLayer& layer = layers_[l];
          part.kept = int(std::min<int64_t>(before[u] + layer.padding, span(layer) - 1));
          part.rows = part.kept + part.fresh + (last ? layer.padding : 0);
          before[u] = ready(layer, before[u], false);
          after[u] = ready(layer, after[u], last);
          part.outputs = int(after[u] - before[u]);
        } else {
          part.rows = part.fresh;
        }
        step.total += part.rows;
        step.parts.push_back(part);
      }
    }
    for (int l = 0; l < depth_; ++l) {
      const Step& next = steps_[l + 1];
      steps_[l + 1].kept_at = steps_[l].kept_at + size_t(span(layers_[l]) - 1) * steps_[l].width;
      Rows& rows = steps_[l].rows;
      for (int u = 0; u < count_; ++u) {
        const Part &here = steps_[l].parts[u], &there = next.parts[u];
        for (int i = 0; i < here.outputs; ++i) {
          rows.from.push_back(here.first + i);
          rows.to.push_back(there.first + there.kept + i);
        }
      }
    }
  }

  // Layers of even number share one room for their input rows, and layers of odd number another.
  void reserve(int members) {
    size_t windows[2] = {0, 0}, inputs = 0, inner = 0, row = 0;
    int most = 0;
    for (int l = 0; l <= depth_; ++l) {
      const Step& step = steps_[l];
      windows[l % 2] = std::max(windows[l % 2], size_t(step.total) * step.width);
      row = std::max(row, size_t(step.width));
      if (l == depth_) continue;
      const size_t count = step.rows.count();
      most = std::max(most, tile_rows(int(count), members));
      inputs = std::max(inputs, count * product_inputs(l));
      if (layers_[l].type == kBlock)
        inner = std::max(inner, count * round_up(layers_[l].block->intermediate, kRowStep));
    }
    for (size_t size : windows) windows_.emplace_back(size * sizeof(float));
    // Inputs of no kind are wider than floats.
    for (size_t size : {inputs, inner}) products_.emplace_back(size * sizeof(float));
    for (int i = 0; i < members; ++i) {
      own_rows_.emplace_back(row * sizeof(float));
      own_sums_.emplace_back(size_t(most) * kPanel * sizeof(float));
    }
    for (int l = 0; l < depth_; ++l) {
      steps_[l].rows.in = window(l);
      steps_[l].rows.out = window(l + 1);
    }
  }

  // Inputs of the product that a layer begins with, for one output.
  int product_inputs(int l) const {
    return steps_[l].width * (layers_[l].type == kConvolution ? layers_[l].kernel : 1);
  }

  float* window(int l) const { return windows_[l % 2].as<float>(); }

  float* row(int l, int index) const { return window(l) + size_t(index) * steps_[l].width; }

  // Copies an utterance's new rows behind those that the first layer has kept.
  void enter(int u) const {
    load(0, u);
    const Part& part = steps_[0].parts[u];
    const int channels = layers_[0].inputs, width = steps_[0].width;
    for (int i = 0; i < part.fresh; ++i) {
      float* to = row(0, part.first + part.kept + i);
      std::copy_n(inputs_[u].rows + size_t(i) * channels, channels, to);
      std::fill(to + channels, to + width, 0.0f);
    }
  }

  // Copies an utterance's outputs of the last layer to the caller.
  void leave(int u) const {
    const Part& part = steps_[depth_].parts[u];
    const int channels = layers_[depth_ - 1].outputs;
    for (int i = 0; i < part.rows; ++i)
      std::copy_n(row(depth_, part.first + i), channels, inputs_[u].out + size_t(i) * channels);
  }

  // Copies the kept rows to the front of a layer's rows, and puts zeros behind the utterance's end.
  void load(int l, int u) const {
    const Step& step = steps_[l];
    const Part& part = step.parts[u];
    std::copy_n(inputs_[u].kept + step.kept_at, size_t(part.kept) * step.width, row(l, part.first));
    const int end = part.kept + part.fresh;
    std::fill_n(row(l, part.first + end), size_t(part.rows - end) * step.width, 0.0f);
  }

  // Keeps the rows that later outputs need again, once all rows of the layer are there.
  void save(int l, int u) const {
    if (inputs_[u].last) return;
    const Step& step = steps_[l];
    const Part& part = step.parts[u];
    std::copy_n(row(l, part.first + part.outputs), size_t(part.rows - part.outputs) * step.width,
                inputs_[u].kept + step.kept_at);
  }

  // Calls task(i) for each output. Saves and loads the states in the same phase: all rows of this
  // layer are there by now, and the room of the next layer is free.
  template <class Task>
  void each_row(Team::Member& member, int l, Task task) const {
    const int count = steps_[l].rows.count();
    const int chunk = std::clamp(count / (4 * member.size), 1, kTileRows);
    member.each(count_ + pieces(count, chunk), [&](int i) {
      if (i < count_) {
        save(l, i);
        if (l + 1 < depth_) load(l + 1, i);
        return;
      }
      const int first = (i - count_) * chunk, end = std::min(count, first + chunk);
      for (int r = first; r < end; ++r) task(r);
    });
  }

  void advance(Team::Member& member, int l) const {
    const NativeDecoderLayer& layer = layers_[l];
    const Rows& rows = steps_[l].rows;
    float* own = own_rows_[member.rank].as<float>();
    const auto from = [&](int i) { return row(l, rows.from[i]); };
    const auto to = [&](int i) { return row(l + 1, rows.to[i]); };
    switch (layer.type) {
      case kConvolution:
        convolve(member, l);
        break;
      case kNorm:
        each_row(member, l, [&](int i) {
          std::copy_n(from(i), steps_[l].width, own);
          normalise(layer.weight, layer.bias, layer.number, layer.inputs, own, to(i));
        });
        break;
      case kBlock:
        if (layer.block->kind == kFloat32)
          block<Float32Weights>(member, l);
        else
          block<Bfloat16Weights>(member, l);
        break;
      case kSpectrum:
        each_row(member, l, [&](int i) { spectrum(layer, from(i), own, to(i)); });
        break;
      case kOverlap:
        each_row(member, l, [&](int i) { overlap(layer, from(i), steps_[l].width, own, to(i)); });
        break;
    }
  }

  void convolve(Team::Member& member, int l) const {
    const NativeDecoderLayer& layer = layers_[l];
    const Rows& rows = steps_[l].rows;
    const int stride = product_inputs(l), width = steps_[l + 1].width;
    float* inputs = products_[0].as<float>();
    each_row(member, l, [&](int i) {
      std::copy_n(row(l, rows.from[i]), stride, inputs + size_t(i) * stride);
    });
    const Matrix<Float32Weights> matrix{layer.matrix, layer.outputs, stride};
    project(member, inputs, rows.count(), stride, matrix, own_sums_[member.rank].as<float>(),
            [&](int i, int column, Floats sum) {
              const Floats y = sum + chattts::load<Floats>(layer.bias + column);
              store(rows.out + size_t(rows.to[i]) * width + column, layer.gelu ? gelu(y) : y);
            });
  }

  template <class Weights>
  void block(Team::Member& member, int l) const {
    typedef typename Weights::Input Input;
    const ConvNeXt<Weights> convnext(*layers_[l].block);
    const Rows& rows = steps_[l].rows;
    Input* normed = products_[0].as<Input>();
    each_row(member, l, [&](int i) {
      convnext.prepare(row(l, rows.from[i]), own_rows_[member.rank].as<float>(),
                       normed + size_t(i) * steps_[l].width);
    });
    convnext.perceptron(member, rows, normed, products_[1].as<Input>(),
                        own_sums_[member.rank].as<float>());
  }

  // From logs and phases to real and imaginary parts. All four have the same padding.
  static void spectrum(const NativeDecoderLayer& layer, const float* in, float* magnitudes,
                       float* out) {
    const int half = layer.inputs / 2;
    for (int k = 0; k < half; k += kLanes) {
      const Floats magnitude = exponential(chattts::load<Floats>(in + k));
      const Floats limit = splat(layer.number);
      store(magnitudes + k, magnitude > limit ? limit : magnitude);
    }
    for (int k = 0; k < half; ++k) {
      out[k] = magnitudes[k] * std::cos(in[half + k]);
      out[half + k] = magnitudes[k] * std::sin(in[half + k]);
    }
  }

  // One hop of samples: the sum of the frames that overlap there, the oldest first.
  static void overlap(const NativeDecoderLayer& layer, const float* frames, int width,
                      float* weights, float* out) {
    const int hop = layer.outputs;
    std::fill_n(out, hop, 0.0f);
    std::fill_n(weights, hop, 0.0f);
    for (int k = 0; k < layer.kernel; ++k) {
      const int place = (layer.kernel - 1 - k) * hop;
      const float* frame = frames + size_t(k) * width;
      const float there = frame[layer.inputs - 1];
      for (int n = 0; n < hop; ++n) {
        out[n] += frame[place + n];
        weights[n] += there * layer.weight[place + n];
      }
    }
    for (int n = 0; n < hop; ++n) out[n] /= weights[n];
  }

  const NativeDecoderLayer* const layers_;
  const int depth_;
  const NativeDecoderInput* const inputs_;
  const int count_;
  std::vector<Step> steps_;  // one for each layer, and one for the outputs of the last layer
  std::vector<Room> windows_, products_, own_rows_, own_sums_;
};

}  // namespace chattts
