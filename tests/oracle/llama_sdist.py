"""What PyPI's source distribution of llama-cpp-python has of llama.cpp's `models` folder: chat templates of real models, and vocabularies."""

import pypi

NAME, VERSION, SHA256 = "llama-cpp-python", "0.3.36", "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"


def _place(path):
    vocabulary = path.parent.name == "models" and path.name.startswith("ggml-vocab-")
    template = path.suffix == ".jinja" and path.parts[-3:-1] == ("models", "templates")
    return path.name if vocabulary or template else None


def models():
    """The folder with them: *.jinja, and ggml-vocab-*.gguf with `.inp` and `.out` beside some."""
    return pypi.unpacked(NAME, VERSION, SHA256, _place)
