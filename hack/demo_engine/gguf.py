"""The tokenizer of a GGUF file as a GGUF file of its own: all key/value pairs, no tensors.

GGUF (version 2 and 3, little-endian): magic "GGUF", u32 version, u64 tensor count, u64 pair count;
then the pairs: string key, u32 type, value. A string is u64 length and bytes, an array u32 element
type, u64 count and elements. The pairs hold vocabulary, merges, special ids and chat template.
"""

import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # numbers and bool
STRING, ARRAY = 8, 9
ALIGNMENT = 32


class Reader:
    def __init__(self, file):
        self.file = file

    def skip(self, size):
        if len(self.file.read(size)) != size:
            raise ValueError(f"{self.file.name}: GGUF header ends early")

    def number(self, form):
        data = self.file.read(struct.calcsize(form))
        if len(data) != struct.calcsize(form):
            raise ValueError(f"{self.file.name}: GGUF header ends early")
        return struct.unpack(form, data)[0]

    def value(self, kind):
        if kind in SIZES:
            self.skip(SIZES[kind])
        elif kind == STRING:
            self.skip(self.number("<Q"))
        elif kind == ARRAY:
            element, count = self.number("<I"), self.number("<Q")
            if element in SIZES:
                self.skip(SIZES[element] * count)
            else:
                for _ in range(count):
                    self.value(element)
        else:
            raise ValueError(f"{self.file.name}: GGUF value of unknown type {kind}")


def metadata_only(path):
    """The bytes of a GGUF file with the pairs of `path` and no tensors."""
    with open(path, "rb") as file:
        reader = Reader(file)
        if file.read(4) != b"GGUF":
            raise ValueError(f"{path}: not a GGUF file")
        version, _, pairs = (reader.number(form) for form in ("<I", "<Q", "<Q"))
        if version not in (2, 3):
            raise ValueError(f"{path}: GGUF version {version}")
        start = file.tell()
        for _ in range(pairs):
            reader.value(STRING)
            reader.value(reader.number("<I"))
        size = file.tell() - start
        file.seek(start)
        out = b"GGUF" + struct.pack("<IQQ", version, 0, pairs) + file.read(size)
    return out + bytes(-len(out) % ALIGNMENT)
