// What a driver answers about an event of a simulated device.
#include <chrono>

// Returns 1 until `done_at`, in seconds of the monotonic clock, and 0 from then on.
extern "C" int simulated_event_query(void* done_at) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const double seconds = std::chrono::duration<double>(now).count();
  return seconds < *static_cast<const double*>(done_at);
}
