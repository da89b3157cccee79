# SPDX-License-Identifier: MIT
# Sourced by the scripts of this folder: processes spread over the GPUs present, or over those in
# CUDA_VISIBLE_DEVICES.
IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-$(nvidia-smi --query-gpu=index --format=csv,noheader | paste -sd,)}"

# on_gpus COUNT COMMAND...: runs it COUNT times side by side, each on the next GPU; SHARD is the number of
# the process. Fails when one of them does.
on_gpus() {
  local count=$1 shard pid pids=() failed=0
  shift
  for ((shard = 0; shard < count; ++shard)); do
    CUDA_VISIBLE_DEVICES=${gpus[shard % ${#gpus[@]}]} SHARD=$shard "$@" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  return "$failed"
}
