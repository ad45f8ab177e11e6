// Checks a delivered library of CPU kernels on its own system, or in an emulator of it, where there
// is no Python: `make test-delivered`. Products are compared with sums in double, and their bits
// between batches and between teams.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#ifdef _WIN32
#include <windows.h>
static void* open_library(const char* path) { return (void*)LoadLibraryA(path); }
static void* find(void* library, const char* name) {
  return (void*)GetProcAddress((HMODULE)library, name);
}
#else
#include <dlfcn.h>
static void* open_library(const char* path) { return dlopen(path, RTLD_NOW); }
static void* find(void* library, const char* name) { return dlsym(library, name); }
#endif

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

template <class Function>
Function* function(void* library, const char* name) {
  void* found = find(library, name);
  check(found != nullptr, name);
  return reinterpret_cast<Function*>(found);
}

struct Kernels {
  explicit Kernels(void* library)
      : build(function<const char*()>(library, "velocity_build")),
        team(function<void*(int)>(library, "velocity_team")),
        dismiss(function<void(void*)>(library, "velocity_dismiss")),
        bytes(function<int64_t(int, int, int)>(library, "velocity_matrix_bytes")),
        pack(function<void(void*, int, const float*, int, int, char*)>(library, "velocity_pack")),
        product(function<void(void*, int, const float*, int, const char*, int, int, float*)>(
            library, "velocity_product")) {}

  const char* (*build)();
  void* (*team)(int);
  void (*dismiss)(void*);
  int64_t (*bytes)(int, int, int);
  void (*pack)(void*, int, const float*, int, int, char*);
  void (*product)(void*, int, const float*, int, const char*, int, int, float*);
};

// The largest error of a product, as a part of the sum of its terms' sizes. Weights of 16 and 8
// bits, and inputs that are rounded with them, are further from the sums in double.
const double kBounds[] = {1e-6, 8e-3, 1.2e-2};

void compare(const Kernels& kernels, int kind, int outputs, int inputs) {
  constexpr int kRows = 19;
  std::mt19937 numbers(outputs * 1000 + inputs);
  std::normal_distribution<float> normal;
  std::vector<float> weight(size_t(outputs) * inputs), rows(size_t(kRows) * inputs);
  for (float& x : weight) x = normal(numbers);
  for (float& x : rows) x = normal(numbers);
  std::vector<float> first;
  for (int size : {1, 3}) {
    void* team = kernels.team(size);
    std::vector<char> packed(kernels.bytes(kind, outputs, inputs));
    kernels.pack(team, kind, weight.data(), outputs, inputs, packed.data());
    std::vector<float> out(size_t(kRows) * outputs), alone(outputs);
    kernels.product(team, kind, rows.data(), kRows, packed.data(), outputs, inputs, out.data());
    check(first.empty() || first == out, "teams differ");
    first = out;
    for (int m = 0; m < kRows; ++m) {
      const float* in = &rows[size_t(m) * inputs];
      kernels.product(team, kind, in, 1, packed.data(), outputs, inputs, alone.data());
      for (int n = 0; n < outputs; ++n) {
        double sum = 0, sizes = 0;
        for (int k = 0; k < inputs; ++k) {
          const double term = double(in[k]) * weight[size_t(n) * inputs + k];
          sum += term;
          sizes += std::fabs(term);
        }
        const float found = out[size_t(m) * outputs + n];
        check(found == alone[n], "a row depends on the rows beside it");
        check(std::fabs(found - sum) <= kBounds[kind] * (sizes + 1), "a product is wrong");
      }
    }
    kernels.dismiss(team);
  }
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    void* library = open_library(arguments[i]);
    check(library != nullptr, arguments[i]);
    const Kernels kernels(library);
    for (int kind = 0; kind < 3; ++kind)
      for (int outputs : {1, 17, 48, 131})
        for (int inputs : {1, 33, 64, 1025}) compare(kernels, kind, outputs, inputs);
    std::printf("%s: %s, no fault\n", arguments[i], kernels.build());
  }
}
