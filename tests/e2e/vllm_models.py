"""Run by the Python of build/venv-vllm, not by pytest's:

    vllm_models.py make KIND FOLDER       config.json and random weights of a tiny model, beside the tokenizer that lies there
    vllm_models.py ask FOLDER IN OUT      vLLM by itself, with its own image processing: what it answers to the conversations of a JSON file

Weights are larger than those that models are born with, so that an image shows in what comes out."""

import json
import os
import pathlib
import sys

MRoPE = {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [4, 6, 6]}
TEXT = {
    "vocab_size": 151936, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "max_position_embeddings": 8192, "bos_token_id": 151643, "eos_token_id": 151645, "initializer_range": 0.12,
}  # fmt: skip
TOWER = {"hidden_size": 64, "intermediate_size": 128, "num_heads": 4, "out_hidden_size": 128, "initializer_range": 0.12}


def config_of(kind, folder):
    import transformers as t

    if kind == "qwen25":
        vision = TOWER | {"depth": 2, "fullatt_block_indexes": [1]}
        return t.Qwen2_5_VLConfig(text_config=TEXT | {"rope_parameters": MRoPE}, vision_config=vision, tie_word_embeddings=True)
    if kind == "qwen3":
        vision = TOWER | {"depth": 3, "deepstack_visual_indexes": [0, 1], "num_position_embeddings": 2304}
        text = TEXT | {"rope_parameters": MRoPE | {"mrope_interleaved": True}}
        return t.Qwen3VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True)
    vision = t.CLIPVisionConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=2, image_size=336, patch_size=14, projection_dim=64, initializer_range=0.12
    )
    tokenizer = t.AutoTokenizer.from_pretrained(folder)
    image = tokenizer.convert_tokens_to_ids("<image>")
    return t.LlavaConfig(text_config=t.LlamaConfig(**TEXT), vision_config=vision, image_token_index=image, tie_word_embeddings=False)


def make(kind, folder):
    import torch
    import transformers

    torch.manual_seed(7)
    config = config_of(kind, folder)
    config.dtype = "float32"
    model = transformers.AutoModelForImageTextToText.from_config(config)
    for name, p in model.named_parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=0.12)
        elif "norm" not in name:
            torch.nn.init.normal_(p, std=0.05)
    model.save_pretrained(folder)
    if kind == "llava":
        rename(pathlib.Path(folder) / "model.safetensors", "vision_tower.", "vision_tower.vision_model.")


def rename(file, old, new):
    """Tensors as published weights are named: this transformers calls CLIP's by shorter names, which vLLM does not know."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(file)
    save_file({name.replace(old, new, 1) if name.startswith(old) else name: t for name, t in tensors.items()}, file, {"format": "pt"})


def ask(folder, conversations, results, context):
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=folder, max_model_len=context, enforce_eager=True, dtype="float32", enable_prefix_caching=False, mm_processor_cache_gb=0, limit_mm_per_prompt={"image": 4}
    )
    how = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True, logprobs=5)
    answers = []
    for messages in json.load(open(conversations)):
        (answer,) = llm.chat(messages, how, chat_template_content_format="openai", use_tqdm=False)
        (choice,) = answer.outputs
        top = [sorted(((t, p.logprob) for t, p in at.items()), key=lambda pair: -pair[1]) for at in choice.logprobs]
        answers.append({"prompt": list(answer.prompt_token_ids), "ids": list(choice.token_ids), "top": top})
    with open(results, "w") as f:
        json.dump(answers, f)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if sys.argv[1] == "make":
        make(*sys.argv[2:])
    else:
        ask(*sys.argv[2:5], int(sys.argv[5]))
