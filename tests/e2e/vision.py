"""Models that see, as folders of files around Qwen3's tokenizer, and transformers' processors of the same families as the truth: ids with the
places of images expanded, pixels, grids. Their PIL backend needs no torch; the check of a processor's parts by class would."""

import base64
import hashlib
import io
import json
import random

import numpy as np
import transformers
from PIL import Image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.llava.processing_llava import LlavaProcessor
from transformers.models.qwen2_5_vl.processing_qwen2_5_vl import Qwen2_5_VLProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen2_vl.processing_qwen2_vl import Qwen2VLProcessor

IMAGE_PAD = 151655  # in Qwen3's tokenizer
# What the models' own templates do with parts.
QWEN_TEMPLATE = """{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}
{%- if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}
{%- endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
LLAVA_TEMPLATE = """{% for m in messages %}{{ m.role | upper }}: {% for part in m.content | selectattr('type', 'equalto', 'image') %}<image>
{% endfor %}{% for part in m.content | selectattr('type', 'equalto', 'text') %}{{ part.text }}{% endfor %} {% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"""

MEAN = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}  # as the models' own files have it: vLLM looks for it there
QWEN = {"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 401408, "patch_size": 14, "merge_size": 2, "temporal_patch_size": 2} | MEAN
QWEN3 = {
    "image_processor_type": "Qwen2VLImageProcessorFast", "size": {"shortest_edge": 65536, "longest_edge": 1048576}, "patch_size": 16, "merge_size": 2,
    "temporal_patch_size": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
}
CLIP = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}} | MEAN
LLAVA = {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}

MODELS = {  # name: (model_type, preprocessor_config.json, processor_config.json, template)
    "qwen2": ("qwen2_vl", QWEN, None, QWEN_TEMPLATE),
    "qwen25": ("qwen2_5_vl", QWEN, None, QWEN_TEMPLATE),
    "qwen3": ("qwen3_vl", QWEN3, None, QWEN_TEMPLATE),
    "llava": ("llava", CLIP, LLAVA, LLAVA_TEMPLATE),
    "llava-full": ("llava", CLIP, LLAVA | {"vision_feature_select_strategy": "full"}, LLAVA_TEMPLATE),
}


class Model:
    """A folder, and what transformers makes of conversations with it."""

    def __init__(self, name, tokenizer_folder, into):
        self.name, self.folder = name, into / name
        self.type, self.preprocessor, self.processor_config, self.template = MODELS[name]
        self.folder.mkdir()
        tokenizer = json.loads((tokenizer_folder / "tokenizer.json").read_text())
        config = json.loads((tokenizer_folder / "tokenizer_config.json").read_text())
        config["chat_template"] = self.template
        if self.type == "llava":
            token = {"content": "<image>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
            tokenizer["added_tokens"].append({"id": max(t["id"] for t in tokenizer["added_tokens"]) + 1, **token})
            config["added_tokens_decoder"][str(tokenizer["added_tokens"][-1]["id"])] = token
        files = {"tokenizer.json": tokenizer, "tokenizer_config.json": config, "preprocessor_config.json": self.preprocessor,
                 "config.json": {"architectures": ["X"], "model_type": self.type}}
        if self.processor_config:
            files["processor_config.json"] = self.processor_config
        for file, value in files.items():
            (self.folder / file).write_text(json.dumps(value))
        self.files = sorted(self.folder.iterdir())
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        self.processor = self._processor()

    def _processor(self):
        class Whole:  # of the parts' classes only torch's backend is known by name
            def check_argument_for_proper_class(self, name, argument):
                pass

        options = {k: v for k, v in self.preprocessor.items() if k != "image_processor_type"}
        if self.type == "llava":
            kind = type("Llava", (Whole, LlavaProcessor), {})
            return kind(image_processor=CLIPImageProcessorPil(**options), tokenizer=self.tokenizer, **self.processor_config)
        base = Qwen2VLProcessor if self.type == "qwen2_vl" else Qwen2_5_VLProcessor
        kind = type("Qwen", (Whole, base), {})
        return kind(image_processor=Qwen2VLImageProcessorPil(**options), tokenizer=self.tokenizer, video_processor=None)

    def want(self, messages, images, raw=False):
        """(ids, tensors) of a conversation whose image parts are {"type": "image"}. raw: pixels before they are scaled and normalized."""
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        options = {"do_rescale": False, "do_normalize": False} if raw else {}
        got = self.processor(text=[text], images=images, **options)
        ids = [int(i) for i in got["input_ids"][0]]
        tensors = {k: np.asarray(got[k]) for k in ("pixel_values", "image_grid_thw") if k in got}
        if "image_grid_thw" in tensors:
            tensors["patches_per_image"] = tensors["image_grid_thw"].prod(-1)
        if raw:
            tensors["pixel_values"] = tensors["pixel_values"].astype(np.uint8)
        return ids, tensors


def digest(array):
    kind = np.float32 if array.dtype.kind == "f" else np.uint8 if array.dtype == np.uint8 else np.int64
    return hashlib.sha256(np.ascontiguousarray(array, kind).tobytes()).hexdigest()


def picture(seed, width, height):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [(x * rng.integers(1, 6) + y * rng.integers(1, 6)) % 256 for _ in range(3)]
    return Image.fromarray((np.stack(planes, -1) ^ rng.integers(0, 8, (height, width, 3))).astype(np.uint8))


def file_of(image, kind="PNG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def data_url(data, type="image/png"):
    return f"data:{type};base64,{base64.b64encode(data).decode()}"


def part(data, **more):
    return {"type": "image_url", "image_url": {"url": data if isinstance(data, str) else data_url(data), **more}}


def text(words):
    return {"type": "text", "text": words}


def bare(messages):
    """The conversation as a template sees it."""
    return [
        m if isinstance(m["content"], str) else m | {"content": [{"type": "image"} if p["type"] == "image_url" else p for p in m["content"]]}
        for m in messages
    ]


def conversation(rng, sizes):
    """(messages, images): images among texts, over several messages, in a random order."""
    messages, images = [], []
    parts = [text(f"What is {rng.random()}? ")]
    for width, height in sizes:
        image = picture(rng.randrange(1 << 30), width, height)
        images.append(image)
        parts.append(part(file_of(image)))
        if rng.random() < 0.6:
            parts.append(text(rng.choice([" and then ", "größer\n", "日本"])))
        if rng.random() < 0.3:
            messages += [{"role": "user", "content": parts}, {"role": "assistant", "content": [text("I see.")]}]
            parts = [text("Next: ")]
    return [*messages, {"role": "user", "content": parts}], images


def rng(seed):
    return random.Random(seed)
