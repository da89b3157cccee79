# SPDX-License-Identifier: MIT
"""vLLM's engine, which does what lines of JSON on its standard input say, the first of which starts it:
    python3 engine.py MODEL_DIRECTORY BACKEND '{"max_model_len": 8192}'
Answers are lines of JSON on the descriptor that was standard output; what vLLM prints goes to standard
error."""

import itertools
import json
import math
import os
import pathlib
import random
import sys
import time

os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"  # Functions below go to the model's process.
os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")  # Nothing is drawn: tokens are greedy.


def fill(model):
    """Weights with which attention decides the tokens: vLLM's dummy weights make all scores alike."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(7)
    filled = set()
    for name, layer in sorted(model.named_modules()):
        if getattr(layer, "weight_scale", None) is not None or (
                os.environ.get("SWR_FILL") == "fp8" and name.endswith("_proj")):
            fill_fp8(layer, 2.0 if "o_proj" in name else 1.0, generator)
            filled.add(name + ".weight")
    is_gemma = "Gemma" in type(model).__name__  # It adds 1 to its norms and scales its embeddings.
    for name, weight in sorted(model.named_parameters()):
        if not weight.is_floating_point() or name in filled or "scale" in name:
            continue
        if weight.dim() == 1:  # Norms, biases, sinks.
            mean, deviation = (float(not is_gemma), 0.1) if "norm" in name else (0.0, 0.5)
        else:
            mean, deviation = 0.0, weight.shape[-1] ** -0.5
        if "embed_tokens" in name and not is_gemma:
            deviation = 1.0
        if "o_proj" in name:  # What is compared has a large share.
            deviation *= 2.0
        weight.data.normal_(mean, deviation, generator=generator)
        if "lm_head" in name or ("embed_tokens" in name and is_gemma):
            # Some tokens are likelier than others: the two best of alike ones are nearly always near.
            spread = torch.empty(len(weight), 1, device="cuda").normal_(0.0, 1.0, generator=generator)
            weight.data.mul_(0.1 * spread.exp())


def fill_fp8(layer, gain, generator):
    """A weight of FP8 and its scale, of the deviation that a weight of bf16 has; or their product, which
    bf16 holds, as a weight of bf16."""
    import torch

    deviation = 64.0  # Of the stored numbers, which reach 448.
    inputs = layer.input_size_per_partition
    scale = 2.0 ** round(math.log2(gain * inputs ** -0.5 / deviation))
    is_fp8 = layer.weight.dtype.itemsize == 1
    weight = layer.weight.data if is_fp8 else layer.weight.data.T  # [inputs, outputs].
    assert weight.shape[0] == inputs
    drawn = torch.empty(weight.shape, device="cuda").normal_(0.0, deviation, generator=generator)
    drawn = drawn.clamp_(-448.0, 448.0).to(torch.float8_e4m3fn)
    weight.copy_(drawn if is_fp8 else drawn.float() * scale)
    if is_fp8:
        layer.weight_scale.data.fill_(scale)


def classes_that_attend(model):
    return sorted({type(layer.impl).__name__ for layer in model.modules() if hasattr(layer, "impl")})


def memory_of(model):
    """Of the process that has the model, in MiB."""
    import torch

    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return {"allocated": torch.cuda.memory_allocated() >> 20,
            "reserved": torch.cuda.memory_reserved() >> 20, "process": pages >> 8}


def request_of(number, generated):
    """The same in every engine: a prompt and what is wanted of it, up to so many tokens."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    own = random.Random(number)
    length = min(400, int(own.expovariate(1 / 40)) + 1)
    return {"prompt_token_ids": own.choices(range(3, 500), k=length)}, SamplingParams(
        temperature=0.0, max_tokens=own.randrange(1, generated + 1), ignore_eos=True, detokenize=False,
        logprobs=8 if number % 16 == 0 else None, output_kind=RequestOutputKind.FINAL_ONLY)


class Engine:
    def __init__(self, path, backend, options):
        from vllm import LLM

        self.make = lambda: LLM(model=path, load_format="dummy", skip_tokenizer_init=True, seed=0,
                                attention_backend=backend, **options)

    def start(self):
        begin = time.perf_counter()
        self.llm = self.make()
        self.llm.apply_model(fill)
        return {"seconds": time.perf_counter() - begin,
                "classes": self.llm.apply_model(classes_that_attend)[0]}

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

    def soak(self, count, seconds, seed, path, generated):
        """So many requests of random lengths as there is time for, a part of them cancelled at random.
        Tokens of those that ended go to a file, by number, and of one in 16 the best of each step."""
        draw, engine = random.Random(seed), self.llm.llm_engine
        waiting, running, cancelled, begun = iter(range(count)), [], 0, time.monotonic()
        asked, memory = 0, {}
        with open(path, "w") as file:
            while True:
                is_late = time.monotonic() - begun > seconds
                for number in itertools.islice(waiting, 0 if is_late else max(0, 512 - len(running))):
                    engine.add_request(str(number), *request_of(number, generated))
                    running.append(number)
                    asked = number + 1
                if not running:
                    break
                ended = {int(output.request_id): output.outputs[0] for output in engine.step()}
                for number, of in ended.items():
                    if of.finish_reason == "length":
                        print(json.dumps([number, list(of.token_ids), [
                            [(t, p.logprob) for t, p in step.items()] for step in of.logprobs or []]]),
                            file=file)
                running = [number for number in running if number not in ended]
                for _ in range(min(len(running), draw.randrange(3))):
                    number = running.pop(draw.randrange(len(running)))
                    engine.abort_request([str(number)])
                    cancelled += 1
                if not memory and asked > count // 10:
                    memory["after a tenth"] = self.llm.apply_model(memory_of)[0]
        memory["at the end"] = self.llm.apply_model(memory_of)[0]
        preempted = sum(metric.value for metric in self.llm.get_metrics()
                        if metric.name == "vllm:num_preemptions")
        return {"asked": asked, "seconds": round(time.monotonic() - begun), "cancelled": cancelled,
                "preempted": preempted, **memory}

    def guesses(self):
        """Steps that guessed, over sequences, and tokens that were guessed right, since the start."""
        of_name = {metric.name: getattr(metric, "value", 0) for metric in self.llm.get_metrics()}
        return {"steps": of_name.get("vllm:spec_decode_num_drafts"),
                "right": of_name.get("vllm:spec_decode_num_accepted_tokens")}

    def forget(self):
        """Empties the prefix cache."""
        return bool(self.llm.reset_prefix_cache())


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine = Engine(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
    for line in sys.stdin:
        call = json.loads(line)
        print(json.dumps(getattr(engine, call.pop("do"))(**call)), file=answers, flush=True)


if __name__ == "__main__":
    main()
