# SPDX-License-Identifier: MIT
"""vLLM's plug-in for swr: `vllm serve MODEL --attention-backend CUSTOM`, and with SWR_VLLM_LINEAR=1 in the
environment linear layers too."""

import os


def register():
    """Tells vLLM what there is. vLLM calls this in every process, before there is a device."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    register_backend(AttentionBackendEnum.CUSTOM, "swr_vllm.attention.SwrAttentionBackend")
    if os.environ.get("SWR_VLLM_LINEAR") == "1":
        from .linear import put_kernels_first, replace_layers

        replace_layers()
        put_kernels_first()
