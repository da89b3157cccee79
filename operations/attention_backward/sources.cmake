list(APPEND sources attention_backward/config.cpp attention_backward/constraints.cpp
  attention_backward/model.cpp attention_backward/operation.cpp attention_backward/problem.cpp
  attention_backward/serve.cpp attention_backward/space.cpp attention_backward/variant.cpp
  attention_backward/workload.cpp)
