// SPDX-License-Identifier: MIT
// What both programs need of the driver.
#pragma once

#include <dlfcn.h>

template <typename Function>
Function* driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

inline void make_context_current() {
  void* context = nullptr;
  driver<int(unsigned)>("cuInit")(0);
  driver<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0);
  driver<int(void*)>("cuCtxSetCurrent")(context);
}
