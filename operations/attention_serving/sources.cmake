list(APPEND sources attention_serving/call.cpp attention_serving/config.cpp attention_serving/lengths.cpp
  attention_serving/merge_states.cpp attention_serving/model.cpp attention_serving/operation.cpp
  attention_serving/problem.cpp attention_serving/serve.cpp attention_serving/space.cpp
  attention_serving/workload.cpp)
