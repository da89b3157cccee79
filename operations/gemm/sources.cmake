list(APPEND sources gemm/buffers.cpp gemm/config.cpp gemm/constraints.cpp gemm/group_places.cpp
  gemm/kernel.cpp gemm/model_problems.cpp gemm/operation.cpp gemm/problem.cpp gemm/quick_choice.cpp gemm/serve.cpp gemm/space.cpp
  gemm/variant.cpp gemm/workload.cpp gemm/model/predictor.cpp gemm/model/time.cpp gemm/model/walk.cpp)
list(APPEND cold gemm/explained.cpp gemm/package.cpp gemm/report.cpp gemm/model/explanation.cpp)
# What its exported packages carry.
list(APPEND gemm_package include/swr/gemm_axes.h include/swr/gemm_params.h templates/common/gemm_groups.h
  templates/common/gemm_schedule.h templates/gemm/hopper/config.h templates/gemm/portable/config.h
  templates/gemm/row_copies.h operations/gemm/gemm_fit.h operations/gemm/gemm_launch.h
  operations/gemm/package/gemm.cpp
  operations/gemm/package/gemm.h operations/gemm/package/gemm_kernels.h)
