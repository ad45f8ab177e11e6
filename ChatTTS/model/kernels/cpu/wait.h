// Waiting for a device in one call: ctypes gives the interpreter's lock back for as long as a call
// lasts, so all other threads of Python run meanwhile.
#pragma once

#include <chrono>
#include <thread>

// A library for a wheel hides all names but these.
#pragma GCC visibility push(default)

// Asks `query(work)` until it returns anything but `pending`: without sleeping for `awake_seconds`,
// and then between sleeps of `poll_seconds`. Returns whether it answered within `seconds`. A process
// that was stopped for long looks once more.
extern "C" int velocity_wait_for(int (*query)(void*), void* work, int pending, double seconds,
                                 double awake_seconds, double poll_seconds) {
  using Seconds = std::chrono::duration<double>;
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    const double waited = Seconds(std::chrono::steady_clock::now() - began).count();
    if (query(work) != pending) return true;
    if (waited > seconds) return false;
    if (waited < awake_seconds)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(Seconds(poll_seconds));
  }
}

#pragma GCC visibility pop
