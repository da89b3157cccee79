list(APPEND sources user_kernel/reference.cpp user_kernel/workload.cpp)
list(APPEND cold user_kernel/operation.cpp user_kernel/package.cpp user_kernel/serve.cpp
  user_kernel/texture.cpp)
# What its exported packages carry.
list(APPEND user_kernel_package core/reject.cpp core/reject.h export/package/plain_kernels.h
  include/swr/error.h
  kernel_spec/expression/arithmetic.cpp kernel_spec/expression/arithmetic.h
  kernel_spec/expression/evaluate.cpp kernel_spec/expression/expression.h
  kernel_spec/expression/integer_program.cpp kernel_spec/expression/integer_program.h
  kernel_spec/expression/parser.cpp kernel_spec/expression/tokens.cpp kernel_spec/expression/tokens.h
  kernel_spec/expression/value.cpp kernel_spec/expression/value.h
  operations/user_kernel/package/user_kernels.cpp operations/user_kernel/package/user_kernels.h)
