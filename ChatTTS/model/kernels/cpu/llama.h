// A Llama that computes one step for rows of any sequences: prompts and new tokens side by side.
#pragma once

#include <memory>
#include <vector>

#include "adapters.h"
#include "attention.h"
#include "products.h"

extern "C" {

// The order and types of the fields are those of library.py.
// A rank computes some layers, and of these some heads and some outputs of each product; see
// llama/shard.py. `layers`, `heads` and `kv_heads` are its own; the other sizes are those of the
// model.
struct NativeSizes {
  int32_t hidden, intermediate, layers, heads, kv_heads, head_size, num_codebooks, block_size;
  int32_t audio_tokens;  // rows of the code table for each codebook
  int32_t queries;       // outputs of the attention of all ranks
  // Where the rank's outputs begin, and how many of the hidden and intermediate size it has.
  int32_t first_query, first_hidden, own_hidden, first_inner, own_inner;
  float eps;
};

struct NativeLayer {
  const char *qkv, *out, *gate, *up, *down;
  const float *attention_norm, *mlp_norm;
};

struct NativeWeights {
  const NativeLayer* layers;
  const NativeLowRank* adapters;  // [adapters][layers][kProducts]
  int32_t max_rank;               // of any of them
  const float* final_norm;
  const void *text_table, *code_table;  // rows of the hidden size, as the embeddings are stored
  const float *cosines, *sines;         // [positions][head_size]
};

// The rows that ranks fill together, each rank its own columns.
enum NativeGathered { kAttended = 0, kHidden = 1, kGated = 2 };

// Fetches the columns of the other ranks: `rows` rows of `bytes` bytes, each number of `item`
// bytes.
typedef void (*NativeGather)(int32_t what, void* data, int32_t rows, int32_t bytes, int32_t item);

// One step: `rows` positions; see velocity/input_batch.py for the fields.
struct NativeBatch {
  int32_t rows, draws, table_width;
  const uint8_t* kinds;
  const int32_t *ids, *positions, *tables, *table_of, *draw_rows;
  const int32_t* adapter_of;  // of each row, or -1; null if no row has one
  const float* vectors;
  void* pool;
  float* hiddens;  // out: [draws][hidden]
  // Of a stage that is not the first or not the last one, or null: the rows that the layers begin
  // with, and the rows that they end with, instead of `hiddens`: [rows][hidden].
  const float* given;
  float* passed;
  NativeGather gather;  // null for a single rank
  // The attention that is wanted, or null; see AttentionProbe in velocity/input_batch.py.
  const int32_t *probe_first, *probe_layers, *probe_heads, *probe_columns;
  const int64_t* probe_starts;
  float* probe_out;
};
}

namespace chattts {

enum RowKind { kText = 0, kCode = 1, kVector = 2 };

class LlamaBase {
 public:
  virtual ~LlamaBase() = default;
  virtual void forward(Team& team, const NativeBatch& batch) = 0;
};

// Where a Llama keeps keys and values: as the embeddings are stored, unless its weights are whole
// numbers.
template <class Weights, class Table>
using CacheOf = std::conditional_t<
    Weights::kQuantised, Int8Cache,
    std::conditional_t<std::is_same<Table, float>::value, Float32Cache, Bfloat16Cache>>;

// `Table`: float or bf16, as which embeddings are stored.
template <class Weights, class Table>
class Llama : public LlamaBase {
 public:
  typedef typename Weights::Input Input;
  // What rows are kept as until a product takes them. Quantising needs the whole row.
  typedef std::conditional_t<Weights::kQuantised, float, Input> Kept;
  typedef Blocks<CacheOf<Weights, Table>> Cache;

  Llama(const NativeSizes& sizes, const NativeWeights& weights)
      : sizes_(sizes),
        weights_(weights),
        layers_(weights.layers, weights.layers + sizes.layers),
        shape_{sizes.layers, sizes.kv_heads, sizes.head_size, sizes.block_size},
        own_queries_(sizes.heads * sizes.head_size),
        keys_(sizes.kv_heads * sizes.head_size) {}

  void forward(Team& team, const NativeBatch& batch) override {
    reserve(team.size(), batch.rows, batch.table_width, batch.adapter_of);
    group_rows(batch);
    team.run([&](Team::Member& member) { step(member, batch); });
  }

 private:
  void reserve(int members, int rows, int table_width, bool batch_has_adapters) {
    const auto need = [](auto& buffer, size_t size) {
      if (buffer.size() < size) buffer.resize(size);
    };
    const size_t n = rows;
    need(x_, n * sizes_.hidden);
    need(normed_, n * even(sizes_.hidden));
    need(qkv_, n * width());
    need(attended_, n * even(sizes_.queries));
    need(gated_, n * even(sizes_.intermediate));
    if (batch_has_adapters) need(reduced_, 2 * n * weights_.max_rank);
    if (Weights::kQuantised)
      need(quantised_,
           n * row_stride<Weights>(std::max({sizes_.hidden, sizes_.queries, sizes_.intermediate})));
    own_.resize(members);
    for (Own& own : own_) {
      need(own.sums, 2 * n * kPanel);
      need(own.scores, size_t(sizes_.heads) * room(table_width));
      need(own.mixed, size_t(sizes_.heads) * shape_.width());
    }
  }

  // Inputs get zeros behind them, for the kinds of weights that read several at once.
  static int even(int n) { return round_up(n, kMostInputs); }

  void step(Team::Member& member, const NativeBatch& batch) {
    const int rows = batch.rows;
    member.each(rows, [&](int row) { begin(batch, row); });
    for (int l = 0; l < sizes_.layers; ++l) {
      const NativeLayer& layer = layers_[l];
      normalise(member, rows, layer.attention_norm);
      project(member, batch, l, kQkv, normed_, matrix(layer.qkv, width(), sizes_.hidden),
              [&](int row, int column, const float* sums, int count) {
                std::copy(sums, sums + count, &qkv_[size_t(row) * width() + column]);
              });
      member.each(rows, [&](int row) { place(batch, l, row); });
      // A member takes all heads of a row, unless that would leave other members without work.
      const int parts = rows >= member.size ? 1 : std::min(sizes_.heads, member.size);
      member.each(rows * parts, [&](int i) {
        const int part = i % parts;
        attend(batch, l, i / parts, sizes_.heads * part / parts, sizes_.heads * (part + 1) / parts,
               own_[member.rank]);
      });
      gather(member, batch, kAttended, attended_, even(sizes_.queries));
      project(member, batch, l, kOut, attended_,
              matrix(layer.out, sizes_.own_hidden, sizes_.queries), adding());
      gather(member, batch, kHidden, x_, sizes_.hidden);
      normalise(member, rows, layer.mlp_norm);
      gate(member, batch, l);
      gather(member, batch, kGated, gated_, even(sizes_.intermediate));
      project(member, batch, l, kDown, gated_,
              matrix(layer.down, sizes_.own_hidden, sizes_.intermediate), adding());
      gather(member, batch, kHidden, x_, sizes_.hidden);
    }
    if (batch.passed) {
      member.each(rows, [&](int row) {
        const size_t start = size_t(row) * sizes_.hidden;
        std::copy_n(&x_[start], sizes_.hidden, batch.passed + start);
      });
      return;
    }
    member.each(batch.draws, [&](int i) {
      const float* x = &x_[size_t(batch.draw_rows[i]) * sizes_.hidden];
      float* out = batch.hiddens + size_t(i) * sizes_.hidden;
      const float factor = inverse_rms(x);
      for (int d = 0; d < sizes_.hidden; ++d) out[d] = x[d] * factor * weights_.final_norm[d];
    });
  }

  static Matrix<Weights> matrix(const char* data, int outputs, int inputs) {
    return {data, outputs, inputs};
  }

  int width() const { return own_queries_ + 2 * keys_; }

  // Fetches the columns of the other ranks. The caller's thread does it, since it may run Python.
  template <class Number>
  void gather(Team::Member& member, const NativeBatch& batch, NativeGathered what,
              std::vector<Number>& numbers, int stride) {
    if (!batch.gather) return;
    member.caller_alone([&] {
      batch.gather(what, numbers.data(), batch.rows, stride * int(sizeof(Number)),
                   int(sizeof(Number)));
    });
  }

  void begin(const NativeBatch& batch, int row) {
    const size_t start = size_t(row) * sizes_.hidden;
    if (batch.given)
      std::copy_n(batch.given + start, sizes_.hidden, &x_[start]);
    else
      embed(batch, row);
  }

  void embed(const NativeBatch& batch, int row) {
    const int hidden = sizes_.hidden;
    float* x = &x_[size_t(row) * hidden];
    const int32_t* ids = batch.ids + size_t(row) * sizes_.num_codebooks;
    if (batch.kinds[row] == kVector) {
      std::copy_n(batch.vectors + size_t(ids[0]) * hidden, hidden, x);
    } else if (batch.kinds[row] == kText) {
      read_row(weights_.text_table, ids[0], x, false);
    } else {
      for (int codebook = 0; codebook < sizes_.num_codebooks; ++codebook)
        read_row(weights_.code_table, codebook * sizes_.audio_tokens + ids[codebook], x,
                 codebook > 0);
    }
  }

  void read_row(const void* table, int64_t row, float* x, bool add) const {
    const Table* from = static_cast<const Table*>(table) + row * sizes_.hidden;
    for (int d = 0; d < sizes_.hidden; ++d) x[d] = (add ? x[d] : 0.0f) + plain(from[d]);
  }

  float inverse_rms(const float* x) const {
    Total squares;
    int d = 0;
    for (; d + kSumLanes <= sizes_.hidden; d += kSumLanes)
      squares.each(d, [&](Floats& part, int place) {
        const Floats v = load<Floats>(x + place);
        part = fused(v, v, part);
      });
    float total = squares.sum();
    for (; d < sizes_.hidden; ++d) total += x[d] * x[d];
    return 1.0f / std::sqrt(total / sizes_.hidden + sizes_.eps);
  }

  void normalise(Team::Member& member, int rows, const float* weight) {
    member.each(rows, [&](int row) {
      const float* x = &x_[size_t(row) * sizes_.hidden];
      Kept* out = &normed_[size_t(row) * even(sizes_.hidden)];
      const float factor = inverse_rms(x);
      int d = 0;
      for (; d + kLanes <= sizes_.hidden; d += kLanes)
        put(out + d, load<Floats>(x + d) * factor * load<Floats>(weight + d));
      for (; d < sizes_.hidden; ++d) put(out + d, x[d] * factor * weight[d]);
    });
  }

  // Returns rows as a product takes them, one row_stride behind another.
  const Input* inputs(Team::Member& member, int rows, const std::vector<Kept>& from, int count) {
    if constexpr (Weights::kQuantised) {
      member.each(rows, [&](int row) {
        quantise(&from[size_t(row) * even(count)], count,
                 &quantised_[size_t(row) * row_stride<Weights>(count)]);
      });
      return quantised_.data();
    } else {
      return from.data();
    }
  }

  // Returns what the adapter of a row that has one adds to a product, or null.
  const NativeLowRank* low_rank(const NativeBatch& batch, int row, int layer,
                                NativeProduct product) const {
    const size_t place =
        (size_t(batch.adapter_of[row]) * sizes_.layers + layer) * kProducts + product;
    const NativeLowRank* own = &weights_.adapters[place];
    return own->rank ? own : nullptr;
  }

  float* reduced(int row, int which) {
    return &reduced_[(2 * size_t(row) + which) * weights_.max_rank];
  }

  // Takes rows with an adapter to its ranks, for one or two products of the same inputs.
  void reduce(Team::Member& member, const NativeBatch& batch, int layer,
              std::initializer_list<NativeProduct> products, const std::vector<Kept>& from,
              int inputs) {
    if (!batch.adapter_of) return;
    // A member takes a few ranks for all rows, so that their weights stay in the nearest cache.
    member.each(round_up(weights_.max_rank, kRanksAtOnce) / kRanksAtOnce, [&](int i) {
      int which = 0;
      for (NativeProduct product : products) {
        for (int row : adapted_)
          if (const NativeLowRank* own = low_rank(batch, row, layer, product))
            to_ranks(*own, &from[size_t(row) * even(inputs)], inputs, i * kRanksAtOnce,
                     std::min(own->rank, (i + 1) * kRanksAtOnce), reduced(row, which));
        ++which;
      }
    });
  }

  // Adds what adapters add to a panel of a product, to sums[rows][kPanel].
  void add_adapters(const NativeBatch& batch, int layer, NativeProduct product, int which,
                    int column, float* sums) {
    for (size_t begin = 0, end = 0; begin < adapted_.size(); begin = end) {
      const int adapter = batch.adapter_of[adapted_[begin]];
      const float* ranks[kRowsAtOnce];
      float* outputs[kRowsAtOnce];
      int rows = 0;
      for (; end < adapted_.size() && rows < kRowsAtOnce; ++end, ++rows) {
        const int row = adapted_[end];
        if (batch.adapter_of[row] != adapter) break;
        ranks[rows] = reduced(row, which);
        outputs[rows] = sums + row * kPanel;
      }
      if (const NativeLowRank* own = low_rank(batch, adapted_[begin], layer, product))
        from_ranks_of(rows, *own, ranks, column, outputs);
    }
  }

  // Notes the rows with adapters, those with one adapter side by side.
  void group_rows(const NativeBatch& batch) {
    adapted_.clear();
    if (!batch.adapter_of) return;
    for (int row = 0; row < batch.rows; ++row)
      if (batch.adapter_of[row] >= 0) adapted_.push_back(row);
    std::stable_sort(adapted_.begin(), adapted_.end(),
                     [&](int a, int b) { return batch.adapter_of[a] < batch.adapter_of[b]; });
  }

  // Computes one product, and calls finish(row, column, sums, count) with the outputs.
  template <class Finish>
  void project(Team::Member& member, const NativeBatch& batch, int layer, NativeProduct product,
               const std::vector<Kept>& from, const Matrix<Weights>& matrix, Finish finish) {
    const int rows = batch.rows;
    reduce(member, batch, layer, {product}, from, matrix.inputs);
    const Input* in = inputs(member, rows, from, matrix.inputs);
    const int stride = row_stride<Weights>(matrix.inputs);
    member.each(matrix.panels(), [&](int p) {
      float* sums = own_[member.rank].sums.data();
      panel_product(in, rows, stride, matrix, p, sums, matrix.panel(p + 1));
      const int column = p * kPanel, count = std::min(kPanel, matrix.outputs - column);
      add_adapters(batch, layer, product, 0, column, sums);
      for (int row = 0; row < rows; ++row) finish(row, column, sums + row * kPanel, count);
    });
  }

  auto adding() {
    return [this](int row, int column, const float* sums, int count) {
      float* x = &x_[size_t(row) * sizes_.hidden + sizes_.first_hidden + column];
      for (int n = 0; n < count; ++n) x[n] += sums[n];
    };
  }

  // silu(gate) * up.
  void gate(Team::Member& member, const NativeBatch& batch, int l) {
    const int rows = batch.rows;
    const auto gates = matrix(layers_[l].gate, sizes_.own_inner, sizes_.hidden);
    const auto ups = matrix(layers_[l].up, sizes_.own_inner, sizes_.hidden);
    reduce(member, batch, l, {kGate, kUp}, normed_, sizes_.hidden);
    const Input* in = inputs(member, rows, normed_, sizes_.hidden);
    const int stride = row_stride<Weights>(sizes_.hidden);
    member.each(gates.panels(), [&](int p) {
      float* g = own_[member.rank].sums.data();
      float* u = g + size_t(rows) * kPanel;
      panel_product(in, rows, stride, gates, p, g, ups.panel(p));
      panel_product(in, rows, stride, ups, p, u, gates.panel(p + 1));
      const int column = p * kPanel, count = std::min(kPanel, gates.outputs - column);
      add_adapters(batch, l, kGate, 0, column, g);
      add_adapters(batch, l, kUp, 1, column, u);
      for (int i = 0; i < rows * kPanel; i += kLanes) {
        const Floats v = load<Floats>(g + i);
        store(g + i, v / (1.0f + exponential(-v)) * load<Floats>(u + i));
      }
      for (int row = 0; row < rows; ++row)
        put_row(g + row * kPanel, count,
                &gated_[size_t(row) * even(sizes_.intermediate) + sizes_.first_inner + column]);
    });
  }

  Cache cache(const NativeBatch& batch, int layer, int row) const {
    return Cache(batch.pool, shape_, layer,
                 batch.tables + size_t(batch.table_of[row]) * batch.table_width);
  }

  // Rotates queries and keys, and writes keys and values into their block.
  void place(const NativeBatch& batch, int layer, int row) {
    const int position = batch.positions[row], d = sizes_.head_size;
    float* q = &qkv_[size_t(row) * width()];
    float* k = q + own_queries_;
    const float* v = k + keys_;
    const float* cosine = weights_.cosines + size_t(position) * d;
    const float* sine = weights_.sines + size_t(position) * d;
    for (int h = 0; h < sizes_.heads + sizes_.kv_heads; ++h) rotate(q + h * d, cosine, sine);
    const Cache blocks = cache(batch, layer, row);
    for (int h = 0; h < sizes_.kv_heads; ++h) blocks.write(position, h, k + h * d, v + h * d);
  }

  // Rotary embedding (Su et al. 2021), halves paired as in Llama checkpoints.
  void rotate(float* x, const float* cosine, const float* sine) const {
    const int half = sizes_.head_size / 2;
    int i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      const Floats a = load<Floats>(x + i), b = load<Floats>(x + i + half);
      store(x + i, a * load<Floats>(cosine + i) - b * load<Floats>(sine + i));
      store(x + i + half, b * load<Floats>(cosine + i + half) + a * load<Floats>(sine + i + half));
    }
    for (; i < half; ++i) {
      const float a = x[i], b = x[i + half];
      x[i] = a * cosine[i] - b * sine[i];
      x[i + half] = b * cosine[i + half] + a * sine[i + half];
    }
  }

  struct Own {  // a member's own room
    std::vector<float> sums, scores, mixed;
  };

  // Computes attention for the heads [first, last) of a row.
  void attend(const NativeBatch& batch, int layer, int row, int first, int last, Own& own) {
    const int d = sizes_.head_size;
    cache(batch, layer, row)
        .attend(&qkv_[size_t(row) * width()], first, last, sizes_.heads / sizes_.kv_heads,
                batch.positions[row] + 1, 1.0f / std::sqrt(float(d)), own.scores.data(),
                room(batch.table_width), own.mixed.data());
    if (batch.probe_first) note(batch, layer, row, first, last, own);
    for (int h = first; h < last; ++h) {
      const float* from = &own.mixed[(h - first) * shape_.width()];
      Kept* to =
          &attended_[size_t(row) * even(sizes_.queries) + sizes_.first_query + size_t(h) * d];
      put_row(from, d, to);
    }
  }

  // Copies the attention that is wanted of the heads [first, last) of a row, from their
  // exponentials and the sums of these.
  void note(const NativeBatch& batch, int layer, int row, int first, int last, const Own& own) {
    const int width = room(batch.table_width);
    for (int e = batch.probe_first[row]; e < batch.probe_first[row + 1]; ++e) {
      const int head = batch.probe_heads[e];
      if (batch.probe_layers[e] != layer || head < first || head >= last) continue;
      const float* from = &own.scores[size_t(head - first) * width];
      float* to = batch.probe_out + batch.probe_starts[e];
      for (int t = 0; t < batch.probe_columns[e]; ++t) to[t] = from[t] / from[width - 1];
    }
  }

  // Floats for the scores of a head, the rest of a step of sums, and one more.
  int room(int table_width) const { return table_width * sizes_.block_size + kSumLanes; }

  const NativeSizes sizes_;
  const NativeWeights weights_;
  const std::vector<NativeLayer> layers_;
  const BlockShape shape_;
  const int own_queries_, keys_;
  std::vector<float> x_, qkv_, reduced_;
  std::vector<int> adapted_;  // rows with adapters
  std::vector<Kept> normed_, attended_, gated_;
  std::vector<Input> quantised_;
  std::vector<Own> own_;
};

}  // namespace chattts
