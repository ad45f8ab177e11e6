// Threads that work on one step together.
//
// A step is many short phases, so waiting between them must cost less than a microsecond. Members
// spin at barriers, but only for a while, since the machine may have other work for the core. When
// a step is over they sleep. A team belongs to the process that made it. After a fork the child
// starts threads of its own.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace velocity {

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
  // How often to look before giving the core away (at barriers) or going to sleep (after a step).
  static constexpr int kBarrierSpins = 4000;
  static constexpr int kIdleSpins = 8000;

  // How many tasks of a member's run are taken, in this phase and in the next. Members write into
  // lines of the cache of their own.
  struct alignas(64) Run {
    std::atomic<int> taken[2] = {{0}, {0}};
  };

  // What the threads share. A child of a fork does not free the parent's, nor use it.
  struct Shared {
    explicit Shared(int size) : runs(new Run[size]) {}

    std::mutex turn;  // held by the caller that runs
    std::mutex mutex;
    std::condition_variable wake;
    std::atomic<unsigned> job{0};
    std::atomic<int> busy{0}, living{0};
    bool stop = false;
    void (*call)(void*, Member&) = nullptr;
    void* body = nullptr;
    std::atomic<int> arrived{0};
    std::atomic<unsigned> phase{0};
    const std::unique_ptr<Run[]> runs;
  };

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
  Member(Shared* shared, int size, int rank) : rank(rank), size(size), shared_(shared) {}

  const int rank;
  const int size;

  // Calls task(i) for every i below `tasks`, and waits for all. Each member takes a run of tasks in
  // order, so that it reads memory straight on, and then helps those that have some left.
  template <class Task>
  void each(int tasks, Task task) {
    for (int other = 0; other < size; ++other) {
      const int owner = (rank + other) % size;
      const int begin = start(tasks, owner), count = start(tasks, owner + 1) - begin;
      std::atomic<int>& taken = shared_->runs[owner].taken[turn_];
      while (taken.load(std::memory_order_relaxed) < count) {
        const int i = taken.fetch_add(1, std::memory_order_relaxed);
        if (i < count) task(begin + i);
      }
    }
    meet();
    turn_ = 1 - turn_;
  }

 private:
  // Where the run of a member begins.
  int start(int tasks, int member) const { return int(int64_t(tasks) * member / size); }

  // The last member to arrive resets the counters: all members have seen their ends, and the next
  // phase uses the others.
  void meet() {
    unsigned phase = shared_->phase.load(std::memory_order_acquire);
    if (shared_->arrived.fetch_add(1, std::memory_order_acq_rel) == size - 1) {
      for (int i = 0; i < size; ++i)
        shared_->runs[i].taken[turn_].store(0, std::memory_order_relaxed);
      shared_->arrived.store(0, std::memory_order_relaxed);
      shared_->phase.store(phase + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; shared_->phase.load(std::memory_order_acquire) == phase; ++spins) {
      if (spins < kBarrierSpins)
        pause_briefly();
      else
        std::this_thread::yield();
    }
  }

  Shared* shared_;
  int turn_ = 0;  // which of the two counters of each run counts
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
  for (unsigned done = 0;; ++done) {
    for (int spins = 0; spins < kIdleSpins && shared->job.load(std::memory_order_acquire) == done;
         ++spins)
      pause_briefly();
    if (shared->job.load(std::memory_order_acquire) == done) {
      std::unique_lock<std::mutex> lock(shared->mutex);
      shared->wake.wait(lock, [&] {
        return shared->stop || shared->job.load(std::memory_order_acquire) != done;
      });
      if (shared->job.load(std::memory_order_acquire) == done) break;
    }
    Member member(shared, size, rank);
    shared->call(shared->body, member);
    shared->busy.fetch_sub(1, std::memory_order_release);
  }
  shared->living.fetch_sub(1, std::memory_order_release);
}

template <class Body>
void Team::run(Body body) {
  belong_here();
  std::lock_guard<std::mutex> turn(shared_->turn);
  if (size_ > 1) {
    shared_->call = [](void* self, Member& member) { (*static_cast<Body*>(self))(member); };
    shared_->body = &body;
    shared_->busy.store(size_ - 1, std::memory_order_relaxed);
    // A new member starts with the first counters, so all must be 0.
    for (int i = 0; i < size_; ++i)
      for (std::atomic<int>& taken : shared_->runs[i].taken)
        taken.store(0, std::memory_order_relaxed);
    {
      std::lock_guard<std::mutex> lock(shared_->mutex);
      shared_->job.fetch_add(1, std::memory_order_release);
    }
    shared_->wake.notify_all();
  }
  Member self(shared_, size_, 0);
  body(self);
  if (size_ > 1)
    for (int spins = 0; shared_->busy.load(std::memory_order_acquire) > 0; ++spins) {
      if (spins < kBarrierSpins)
        pause_briefly();
      else
        std::this_thread::yield();
    }
}

}  // namespace velocity
