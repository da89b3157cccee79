# SPDX-License-Identifier: MIT
"""vLLM's engine in a process of its own, which does what lines of JSON on its standard input say:
    python3 engine.py MODEL_DIRECTORY BACKEND '{"max_model_len": 8192}'
Answers are lines of JSON on the descriptor that was standard output; what vLLM prints goes to standard
error."""

import json
import os
import sys
import time

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # The model is reached in this process.
os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")  # Nothing is drawn: tokens are greedy.


def fill(model):
    """Weights with which attention decides the tokens: vLLM's dummy weights make all scores alike."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(7)
    is_gemma = "Gemma" in type(model).__name__  # It adds 1 to its norms and scales its embeddings.
    for name, weight in sorted(model.named_parameters()):
        if not weight.is_floating_point():
            continue
        if weight.dim() == 1:  # Norms, biases, sinks.
            mean, deviation = (float(not is_gemma), 0.1) if "norm" in name else (0.0, 0.5)
        else:
            mean, deviation = 0.0, weight.shape[-1] ** -0.5
        if "embed_tokens" in name and not is_gemma:
            deviation = 1.0
        if "qkv_proj" in name or "o_proj" in name:  # What is compared has a large share.
            deviation *= 2.0
        weight.data.normal_(mean, deviation, generator=generator)


class Engine:
    def __init__(self, path, backend, options):
        from vllm import LLM

        self.llm = LLM(model=path, load_format="dummy", skip_tokenizer_init=True, seed=0,
                       attention_backend=backend, **options)
        self.llm.apply_model(fill)

    def generate(self, prompts, tokens, logprobs=None):
        from vllm import SamplingParams

        parameters = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True,
                                    detokenize=False, logprobs=logprobs)
        begin = time.perf_counter()
        outputs = self.llm.generate([{"prompt_token_ids": p} for p in prompts], parameters,
                                    use_tqdm=False)
        seconds = time.perf_counter() - begin
        answer = {"seconds": seconds, "tokens": [list(o.outputs[0].token_ids) for o in outputs]}
        if logprobs:
            answer["logprobs"] = [[sorted(((t, p.logprob) for t, p in step.items()),
                                          key=lambda pair: -pair[1]) for step in o.outputs[0].logprobs]
                                  for o in outputs]
        return answer

    def backends(self):
        """The class that attends in each layer."""
        context = self.llm.llm_engine.vllm_config.compilation_config.static_forward_context
        return sorted({type(layer.impl).__name__ for layer in context.values()
                       if hasattr(layer, "impl")})

    def forget(self):
        """Empties the prefix cache."""
        return bool(self.llm.reset_prefix_cache())


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    begin = time.perf_counter()
    engine = Engine(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
    print(json.dumps({"ready": time.perf_counter() - begin, "backends": engine.backends()}),
          file=answers, flush=True)
    for line in sys.stdin:
        call = json.loads(line)
        print(json.dumps(getattr(engine, call.pop("do"))(**call)), file=answers, flush=True)


if __name__ == "__main__":
    main()
