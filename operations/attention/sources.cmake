list(APPEND sources attention/config.cpp attention/constraints.cpp attention/model_problems.cpp
  attention/operation.cpp attention/problem.cpp attention/quick_choice.cpp attention/space.cpp
  attention/variant.cpp attention/workload.cpp attention/model/cta_memory.cpp
  attention/model/hopper_time.cpp attention/model/l2_traffic.cpp attention/model/predictor.cpp
  attention/model/walk.cpp attention/model/sm_timeline.cpp attention/model/time.cpp)
list(APPEND cold attention/explained.cpp attention/report.cpp
  attention/model/explanation.cpp)
# What its exported packages carry.
list(APPEND attention_package include/swr/attention_params.h include/swr/launch_geometry.h
  templates/common/attention_schedule.h operations/attention/launch_plan.h
  operations/attention/attention_launch.h driver/tile_counters.h
  operations/attention/package/attention.cpp operations/attention/package/attention.h
  operations/attention/package/attention_kernels.h)
