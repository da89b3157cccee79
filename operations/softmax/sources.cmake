list(APPEND sources softmax/operation.cpp)
# What its exported packages carry.
list(APPEND softmax_package export/package/plain_kernels.h templates/softmax/config.h
  operations/softmax/package/softmax.cpp operations/softmax/package/softmax.h
  operations/softmax/package/softmax_kernels.h)
