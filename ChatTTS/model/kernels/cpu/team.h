// Threads that work on one step together.
//
// A step is many short phases, so waiting between them must cost less than a microsecond. Members
// spin at the end of a phase, but only for a while, since the machine may have other work for the
// core. When a step is over they sleep. A phase is over when its tasks are done, not when all
// members have come: one that the system keeps from running, and that holds no task, delays no
// phase. The others take its tasks, and it skips the phases that it missed. Only the end of a step
// waits for all members that entered it.
//
// A team belongs to the process that made it. After a fork the child starts threads of its own.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

namespace chattts {

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Team {
 public:
  class Member;

  explicit Team(int size) : size_(size) { raise(); }
  ~Team() { dismiss(); }
  int size() const { return size_; }

  // Calls body(member) on every member, the caller's thread included, and returns when all are
  // done. Calls from other threads wait until this one returns.
  template <class Body>
  void run(Body body);

 private:
  // How often to look before giving the core away (in a step) or going to sleep (after a step).
  static constexpr int kStepSpins = 4000;
  static constexpr int kIdleSpins = 8000;

  // Set in `door` while no step may be entered. The other bits count the members inside.
  static constexpr unsigned kClosed = 1u << 31;

  // How many tasks of a member's run are taken, in the low half, and in which phase, in the high
  // one: a member that comes late takes none of a later phase. Members write into lines of the
  // cache of their own.
  struct alignas(64) Run {
    std::atomic<uint64_t> taken{0};
  };

  // What the threads share. A child of a fork does not free the parent's, nor use it.
  struct Shared {
    explicit Shared(int size) : runs(new Run[size]) {}

    std::mutex turn;  // held by the caller that runs
    std::mutex mutex;
    std::condition_variable wake;
    std::atomic<unsigned> job{0};
    std::atomic<unsigned> door{kClosed};
    std::atomic<int> living{0};
    bool stop = false;
    void (*call)(void*, Member&) = nullptr;
    void* body = nullptr;
    unsigned first_phase = 0;  // of the job
    const std::unique_ptr<Run[]> runs;
    alignas(64) std::atomic<int> finished{0};  // tasks of this phase
    alignas(64) std::atomic<unsigned> phase{0};
  };

  // Returns when `good` holds. The core is given away now and then if that takes long.
  template <class Condition>
  static void wait(Condition good) {
    for (int spins = 0; !good(); ++spins) {
      if (spins < kStepSpins)
        pause_briefly();
      else
        std::this_thread::yield();
    }
  }

  void raise();
  void belong_here();
  void dismiss();
  static void serve(Team* team, Shared* shared, int rank);

  const int size_;
  std::atomic<pid_t> owner_{0};
  Shared* shared_ = nullptr;
};

class Team::Member {
 public:
  Member(Shared* shared, int size, int rank)
      : rank(rank), size(size), shared_(shared), phase_(shared->first_phase) {}

  const int rank;
  const int size;

  // Calls task(i) for every i below `tasks`, and returns when all are done. Each member takes a run
  // of tasks in order, so that it reads memory straight on, and then helps those that have some
  // left. What a member does outside of its tasks must not change what others see.
  template <class Task>
  void each(int tasks, Task task) {
    phase(tasks, [&] {
      int finished = 0;
      for (int other = 0; other < size; ++other) {
        const int owner = (rank + other) % size;
        const int begin = start(tasks, owner), count = start(tasks, owner + 1) - begin;
        for (int i; (i = take(owner, count)) >= 0; ++finished) task(begin + i);
      }
      return finished;
    });
  }

  // Calls task() on the thread that called `run`, and returns when it is done.
  template <class Task>
  void caller_alone(Task task) {
    phase(1, [&] {
      if (rank == 0) task();
      return rank == 0 ? 1 : 0;
    });
  }

 private:
  // Takes part in the next phase unless it is over; `work` returns how many tasks it did.
  template <class Work>
  void phase(int tasks, Work work) {
    if (tasks == 0) return;
    const unsigned own = phase_++;
    if (shared_->phase.load(std::memory_order_acquire) != own) return;
    const int done = work();
    if (done > 0 && shared_->finished.fetch_add(done, std::memory_order_acq_rel) + done == tasks)
      open(own + 1);
    else
      wait([&] { return shared_->phase.load(std::memory_order_acquire) != own; });
  }

  // Where the run of a member begins.
  int start(int tasks, int member) const { return int(int64_t(tasks) * member / size); }

  // Returns a task of a run of `count`, or -1 if none is left in this phase.
  int take(int owner, int count) {
    std::atomic<uint64_t>& taken = shared_->runs[owner].taken;
    uint64_t seen = taken.load(std::memory_order_relaxed);
    do {
      if (unsigned(seen >> 32) != phase_ - 1 || int(unsigned(seen)) >= count) return -1;
    } while (!taken.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed));
    return int(unsigned(seen));
  }

  // Begins a phase. All tasks of the one before are done, so no member takes or counts any.
  void open(unsigned phase) {
    for (int i = 0; i < size; ++i)
      shared_->runs[i].taken.store(uint64_t(phase) << 32, std::memory_order_relaxed);
    shared_->finished.store(0, std::memory_order_relaxed);
    shared_->phase.store(phase, std::memory_order_release);
  }

  Shared* shared_;
  unsigned phase_;  // the next one
};

inline void Team::raise() {
  shared_ =
      new Shared(size_);  // after a fork the old one is the parent's: its threads are not here
  shared_->living = size_ - 1;
  int rank = 1;
  try {
    for (; rank < size_; ++rank) std::thread(serve, this, shared_, rank).detach();
  } catch (...) {
    shared_->living -= size_ - rank;  // those that were not started
    owner_ = getpid();
    dismiss();
    throw;
  }
  owner_ = getpid();
}

inline void Team::belong_here() {
  constexpr pid_t kRaising = -1;
  pid_t owner = owner_.load();
  while (owner != getpid()) {
    if (owner != kRaising && owner_.compare_exchange_strong(owner, kRaising)) raise();
    owner = owner_.load();
  }
}

inline void Team::dismiss() {
  if (owner_ != getpid()) return;
  {
    std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->wake.notify_all();
  while (shared_->living.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  delete shared_;
  shared_ = nullptr;
}

inline void Team::serve(Team* team, Shared* shared, int rank) {
  const int size = team->size_;
  for (unsigned done = 0;;) {
    const auto called = [&] { return shared->job.load(std::memory_order_acquire) != done; };
    for (int spins = 0; spins < kIdleSpins && !called(); ++spins) pause_briefly();
    if (!called()) {
      std::unique_lock<std::mutex> lock(shared->mutex);
      shared->wake.wait(lock, [&] { return shared->stop || called(); });
      if (!called()) break;
    }
    done = shared->job.load(std::memory_order_acquire);
    // A job whose door is closed is over. One that lets a member in lasts until the member leaves.
    if (!(shared->door.fetch_add(1, std::memory_order_acq_rel) & kClosed)) {
      Member member(shared, size, rank);
      shared->call(shared->body, member);
    }
    shared->door.fetch_sub(1, std::memory_order_release);
  }
  shared->living.fetch_sub(1, std::memory_order_release);
}

template <class Body>
void Team::run(Body body) {
  belong_here();
  std::lock_guard<std::mutex> turn(shared_->turn);
  shared_->first_phase = shared_->phase.load(std::memory_order_relaxed);
  if (size_ > 1) {
    shared_->call = [](void* self, Member& member) { (*static_cast<Body*>(self))(member); };
    shared_->body = &body;
    shared_->door.fetch_and(~kClosed, std::memory_order_release);
    {
      std::lock_guard<std::mutex> lock(shared_->mutex);
      shared_->job.fetch_add(1, std::memory_order_release);
    }
    shared_->wake.notify_all();
  }
  Member self(shared_, size_, 0);
  body(self);
  if (size_ > 1) {
    shared_->door.fetch_or(kClosed, std::memory_order_relaxed);
    wait([&] { return shared_->door.load(std::memory_order_acquire) == kClosed; });
  }
}

}  // namespace chattts
