// Linux lets a process use the registers of AMX once it has asked, and ends it otherwise. The package
// asks before it takes kernels with AMX (variants.py); these programs have no Python.
#pragma once

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

inline void ask_for_amx() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  syscall(SYS_arch_prctl, kRequestPermission, kTileData);
}
#else
inline void ask_for_amx() {}
#endif
