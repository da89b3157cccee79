# SPDX-License-Identifier: MIT
"""vLLM's plug-in for swr: `vllm serve MODEL --attention-backend CUSTOM`."""


def register():
    """Tells vLLM where the backend is. vLLM calls this in every process, before there is a device."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    register_backend(AttentionBackendEnum.CUSTOM, "swr_vllm.attention.SwrAttentionBackend")
