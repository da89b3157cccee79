#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hugging Face models with random weights on swr: logits and 64 greedy tokens beside eager attention,
tokens a second beside sdpa, and continuous batching from pages. A case is right when swr is as near
to eager attention in fp32 as eager in bf16 is, twice over, and its tokens agree with eager's up to
the first place where eager's two best logits are nearer than that.

  PYTHONPATH=python SWR_LIBRARY=.../libswr.so.1 experiments/attention_serving/models.py

Needs a GPU and Transformers. Ends with 1 when something is wrong."""

import sys
import time

import torch
import transformers

import swr.transformers

COMMON = {"vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 2048,
          "num_hidden_layers": 6, "max_position_embeddings": 8192, "pad_token_id": 0,
          "eos_token_id": None, "bos_token_id": None}
NEW_TOKENS = 64


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        **COMMON, num_attention_heads=16, num_key_value_heads=4, head_dim=128))


def gemma2():
    return transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        **COMMON, num_attention_heads=8, num_key_value_heads=4, head_dim=256, sliding_window=256,
        query_pre_attn_scalar=256, attn_logit_softcapping=50.0))


def gpt_oss():
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(
        **COMMON, num_attention_heads=16, num_key_value_heads=2, head_dim=64, sliding_window=128,
        num_local_experts=4, num_experts_per_tok=2))


def random_model(make):
    torch.manual_seed(1)
    model = make().eval()
    for name, parameter in model.named_parameters():
        if "sinks" in name:
            torch.nn.init.normal_(parameter)
    return model.to("cuda", torch.bfloat16)


def logits(model, implementation, tokens, mask, dtype=torch.bfloat16):
    model.set_attn_implementation(implementation)
    with torch.no_grad():
        found = model.to(dtype)(tokens, attention_mask=mask, use_cache=False).logits.float()
    model.to(torch.bfloat16)
    return found[mask.bool()]


def check_logits(name, model):
    """Batches without padding, padded to the left, and to the right."""
    wrong = 0
    tokens = torch.randint(1, COMMON["vocab_size"], (3, 700), device="cuda")
    for padding in ("no", "left", "right"):
        mask = torch.ones_like(tokens)
        if padding == "left":
            mask[1, :333], mask[2, :5] = 0, 0
        elif padding == "right":
            mask[0, 500:], mask[2, 699:] = 0, 0
        exact = logits(model, "eager", tokens, mask, torch.float32)
        rounded = (logits(model, "eager", tokens, mask) - exact).abs().max().item()
        own = (logits(model, "swr", tokens, mask) - exact).abs().max().item()
        is_right = own <= 2 * rounded + 1e-5
        wrong += not is_right
        print(f"| {name} | logits, {padding} padding | {own:.4f} | eager's {rounded:.4f} | "
              f"{'right' if is_right else 'WRONG'} |", flush=True)
    return wrong


def generated(model, implementation, tokens, mask):
    model.set_attn_implementation(implementation)
    torch.cuda.synchronize()
    begin = time.monotonic()
    out = model.generate(tokens, attention_mask=mask, max_new_tokens=NEW_TOKENS, do_sample=False,
                         output_scores=True, return_dict_in_generate=True)
    torch.cuda.synchronize()
    seconds = time.monotonic() - begin
    return out.sequences[:, tokens.shape[1]:], torch.stack(out.scores, 1).float(), seconds


def check_tokens(name, model):
    wrong = 0
    tokens = torch.randint(1, COMMON["vocab_size"], (4, 600), device="cuda")
    mask = torch.ones_like(tokens)
    mask[1, :200], mask[3, :17] = 0, 0
    speeds = {}
    for implementation in ("swr", "eager"):
        generated(model, implementation, tokens, mask)
    eager, scores, speeds["eager"] = generated(model, "eager", tokens, mask)
    own, own_scores, speeds["swr"] = generated(model, "swr", tokens, mask)
    for row in range(tokens.shape[0]):
        differs = (own[row] != eager[row]).nonzero().flatten()
        place = int(differs[0]) if differs.numel() else NEW_TOKENS
        why = ""
        if place < NEW_TOKENS:
            best = scores[row, place].topk(2).values
            noise = (own_scores[row, :place + 1] - scores[row, :place + 1]).abs().max()
            gap = (best[0] - best[1]).item()
            is_tie = gap <= 2 * noise.item()
            wrong += not is_tie
            why = f", then {'a tie' if is_tie else 'WRONG'}: {gap:.4f} apart, noise {noise:.4f}"
        print(f"| {name} | greedy tokens of sequence {row} | {place} of {NEW_TOKENS}{why} | | |")
    if name != "gpt_oss":
        try:
            generated(model, "sdpa", tokens, mask)
            speeds["sdpa"] = generated(model, "sdpa", tokens, mask)[2]
        except Exception as error:  # Softcaps, for one.
            print(f"| {name} | sdpa | does not take it: {str(error)[:60]} | | |")
    rates = ", ".join(f"{n} {tokens.shape[0] * NEW_TOKENS / s:.0f}" for n, s in speeds.items())
    print(f"| {name} | tokens a second | {rates} | | |", flush=True)
    return wrong


def common(tokens, others):
    """How many tokens agree from the first."""
    agree = 0
    while agree < len(others) and list(tokens[:agree + 1]) == others[:agree + 1]:
        agree += 1
    return agree


def is_tie(model, prefix, one, other):
    """Whether eager attention in bf16 cannot tell these two next tokens apart."""
    tokens = torch.tensor([prefix], device="cuda")
    mask = torch.ones_like(tokens)
    exact = logits(model, "eager", tokens, mask, torch.float32)[-1]
    noise = (logits(model, "eager", tokens, mask)[-1] - exact).abs().max()
    return bool((exact[one] - exact[other]).abs() <= 2 * noise)


def check_pages(name, model):
    """Continuous batching on swr against one sequence at a time of eager."""
    tokens = [torch.randint(1, COMMON["vocab_size"], (n,)).tolist() for n in (70, 301, 1, 16, 530)]
    settings = transformers.GenerationConfig(max_new_tokens=32, do_sample=False, eos_token_id=-1,
                                             pad_token_id=0)
    model.set_attn_implementation("eager")
    expected = [model.generate(torch.tensor([row], device="cuda"), generation_config=settings)
                [0, len(row):].tolist() for row in tokens]
    model.set_attn_implementation(swr.transformers.CONTINUOUS_BATCHING)
    begin = time.monotonic()
    found = [one.generated_tokens for one in
             model.generate_batch(tokens, generation_config=settings).values()]
    seconds = time.monotonic() - begin
    agree = [common(one, other) for one, other in zip(found, expected)]
    wrong = sum(
        not is_tie(model, row + other[:place], one[place], other[place])
        for row, one, other, place in zip(tokens, found, expected, agree) if place < len(other))
    print(f"| {name} | continuous batching, tokens as eager, then ties | {agree} of 32, {wrong} wrong "
          f"| {seconds:.1f} s | |", flush=True)
    return wrong


def main():
    swr.transformers.register()
    wrong = 0
    print("| model | what | found | beside | |\n|---|---|---|---|---|")
    for make in (llama, gemma2, gpt_oss):
        model, name = random_model(make), make.__name__
        wrong += check_logits(name, model) + check_tokens(name, model)
        if name == "llama":
            wrong += check_pages(name, model)
        del model
        torch.cuda.empty_cache()
    print("nothing wrong" if wrong == 0 else f"{wrong} WRONG")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
