// Waiting for a device in one call: ctypes gives the interpreter's lock back for as long as a call
// lasts, so all other threads of Python run meanwhile.
#pragma once

#include <chrono>
#include <optional>
#include <thread>
#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace chattts {

// While it lives, sleeps of this thread end within a microsecond of their time. Linux lets them
// take 50 more by default, which is much beside a step of few rows.
class PreciseSleeps {
 public:
#ifdef __linux__
  PreciseSleeps() : before_(prctl(PR_GET_TIMERSLACK)) { prctl(PR_SET_TIMERSLACK, 1000UL); }
  ~PreciseSleeps() {
    if (before_ > 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(before_));
  }
#else
  PreciseSleeps() {}
#endif
  PreciseSleeps(const PreciseSleeps&) = delete;
  PreciseSleeps& operator=(const PreciseSleeps&) = delete;

#ifdef __linux__
 private:
  const int before_;
#endif
};

}  // namespace chattts

// A library for a wheel hides all names but these.
#pragma GCC visibility push(default)

// Asks `query(work)` until it returns anything but `pending`: without sleeping for `awake_seconds`,
// and then between sleeps of `poll_seconds`. Returns whether it answered within `seconds`. A
// process that was stopped for long looks once more.
extern "C" int chattts_wait_for(int (*query)(void*), void* work, int pending, double seconds,
                                double awake_seconds, double poll_seconds) {
  using Seconds = std::chrono::duration<double>;
  const auto began = std::chrono::steady_clock::now();
  std::optional<chattts::PreciseSleeps> precise;
  while (true) {
    const double waited = Seconds(std::chrono::steady_clock::now() - began).count();
    if (query(work) != pending) return true;
    if (waited > seconds) return false;
    if (waited < awake_seconds) {
      std::this_thread::yield();
      continue;
    }
    if (!precise) precise.emplace();
    std::this_thread::sleep_for(Seconds(poll_seconds));
  }
}

#pragma GCC visibility pop
