"""Our engine protocol against the package it has to be wire-equal to.

Left: proto/{smg,vllm}/*.proto, compiled here by Debian's protoc. Right: the descriptors inside PyPI
smg-grpc-proto. `differences` walks everything of ours and says where the right side lacks it or has
it otherwise; `omitted` lists what only the right side has, which must equal omitted.txt.

One difference in spelling is allowed: where they write `optional T x = 1;` we write
`oneof has_x { T x = 1; }` (protoc-c has no proto3 `optional`; the bytes are the same).
"""

import copy
import pathlib
import subprocess

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields
from smg_grpc_proto.generated import common_pb2, sglang_scheduler_pb2, vllm_engine_pb2

ROOT = pathlib.Path(__file__).resolve().parents[3]
OMITTED = pathlib.Path(__file__).with_name("omitted.txt")
FIELD = descriptor_pb2.FieldDescriptorProto
FOLDERS = ["smg", "sglang", "vllm"]  # of proto/; what others import first
THEIRS = [common_pb2, sglang_scheduler_pb2, vllm_engine_pb2]


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    out = tmp_path_factory.mktemp("proto") / "ours.pb"
    protos = [str(p) for name in FOLDERS for p in sorted((ROOT / "proto" / name).glob("*.proto"))]
    subprocess.run(
        ["protoc", f"--proto_path={ROOT / 'proto'}", f"--descriptor_set_out={out}", *protos],
        check=True,
    )
    return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


@pytest.fixture(scope="module")
def theirs():
    files = descriptor_pb2.FileDescriptorSet()
    for module in THEIRS:
        module.DESCRIPTOR.CopyToProto(files.file.add())
    return files


class Index:
    """A descriptor set by full name: messages, enums, methods."""

    def __init__(self, files):
        self.messages, self.enums, self.methods = {}, {}, {}
        for file in files.file:
            for message in file.message_type:
                self._message(file.package, message)
            for enum in file.enum_type:
                self.enums[f"{file.package}.{enum.name}"] = enum
            for service in file.service:
                for method in service.method:
                    self.methods[f"{file.package}.{service.name}.{method.name}"] = method

    def _message(self, prefix, message):
        name = f"{prefix}.{message.name}"
        self.messages[name] = message
        for nested in message.nested_type:
            self._message(name, nested)
        for enum in message.enum_type:
            self.enums[f"{name}.{enum.name}"] = enum

    def fields(self, message):
        """(field number, description) of a message; a description holds all that the wire sees."""
        for field in self.messages[message].field:
            oneof = None
            if field.HasField("oneof_index"):
                oneof = self.messages[message].oneof_decl[field.oneof_index].name
                if field.proto3_optional or oneof == f"has_{field.name}":
                    oneof = "optional"
            yield (
                field.number,
                {
                    "name": field.name,
                    "type": FIELD.Type.Name(field.type),
                    "of": field.type_name,
                    "label": FIELD.Label.Name(field.label),
                    "oneof": oneof,
                    "packed": field.options.packed if field.options.HasField("packed") else None,
                },
            )


def differences(ours, theirs):
    left, right = Index(ours), Index(theirs)
    found = []

    def same(what, a, b):
        if a != b:
            found.append(f"{what}: ours {a}, theirs {b}")

    for name, message in left.messages.items():
        if name not in right.messages:
            found.append(f"message {name}: not theirs")
            continue
        same(
            f"message {name} is a map entry",
            message.options.map_entry,
            right.messages[name].options.map_entry,
        )
        fields = dict(right.fields(name))
        for number, field in left.fields(name):
            same(f"field {name} = {number}", field, fields.get(number))
    for name, enum in left.enums.items():
        if name not in right.enums:
            found.append(f"enum {name}: not theirs")
            continue
        values = {v.name: v.number for v in right.enums[name].value}
        for value in enum.value:
            same(f"enum {name}.{value.name}", value.number, values.get(value.name))
    for name, method in left.methods.items():
        if name not in right.methods:
            found.append(f"method {name}: not theirs")
            continue
        for part in ("input_type", "output_type", "client_streaming", "server_streaming"):
            same(f"method {name} {part}", getattr(method, part), getattr(right.methods[name], part))
    return found


def omitted(ours, theirs):
    left, right = Index(ours), Index(theirs)
    lines = [f"message {name}" for name in right.messages.keys() - left.messages.keys()]
    # A nested message (a map entry) goes with the message around it.
    lines = [x for x in lines if x.rpartition(".")[0] not in lines]
    lines += [f"enum {name}" for name in right.enums.keys() - left.enums.keys()]
    lines += [f"method {name}" for name in right.methods.keys() - left.methods.keys()]
    for name in left.messages.keys() & right.messages.keys():
        known = dict(left.fields(name))
        lines += [
            f"field {name}.{field['name']} = {number}"
            for number, field in right.fields(name)
            if number not in known
        ]
    for name in left.enums.keys() & right.enums.keys():
        known = {v.number for v in left.enums[name].value}
        values = right.enums[name].value
        lines += [f"value {name}.{v.name}" for v in values if v.number not in known]
    return sorted(lines)


def test_ours_is_theirs(ours, theirs):
    assert len(Index(ours).messages) > 45
    assert differences(ours, theirs) == []


def test_what_we_omit_is_reviewed(ours, theirs):
    found = omitted(ours, theirs)
    print("\n".join(found))
    listed = [x for x in OMITTED.read_text().splitlines() if x and not x.startswith("#")]
    new, gone = sorted(set(found) - set(listed)), sorted(set(listed) - set(found))
    assert not new, f"add to the .proto, or with a reason to {OMITTED.name}: {new}"
    assert not gone, f"take out of {OMITTED.name}: {gone}"
    assert len(listed) == len(set(listed))


def field_of(files, message, field):
    return next(f for f in Index(files).messages[message].field if f.name == field)


def break_number(files):
    field_of(files, "vllm.grpc.engine.SamplingParams", "top_k").number = 33


def break_type(files):
    field_of(files, "vllm.grpc.engine.SamplingParams", "seed").type = FIELD.TYPE_INT64


def break_label(files):
    ids = field_of(files, "vllm.grpc.engine.GenerateComplete", "output_ids")
    ids.label = FIELD.LABEL_OPTIONAL


def break_name(files):
    field_of(files, "vllm.grpc.engine.GenerateComplete", "index").name = "choice"


def break_presence(files):
    field_of(files, "vllm.grpc.engine.SamplingParams", "temperature").ClearField("oneof_index")


def break_method(files):
    Index(files).methods["vllm.grpc.engine.VllmEngine.Generate"].server_streaming = False


def break_package(files):
    next(f for f in files.file if f.package == "smg.grpc.common").package = "smg.common"


DAMAGES = [f for name, f in sorted(globals().items()) if name.startswith("break_")]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__)
def test_the_walk_sees(ours, theirs, damage):
    damaged = copy.deepcopy(ours)
    damage(damaged)
    assert differences(damaged, theirs)


def test_a_new_field_of_theirs_is_seen(ours, theirs):
    newer = copy.deepcopy(theirs)
    Index(newer).messages["vllm.grpc.engine.SamplingParams"].field.add(
        name="new", number=99, type=FIELD.TYPE_BOOL, label=FIELD.LABEL_OPTIONAL
    )
    assert "field vllm.grpc.engine.SamplingParams.new = 99" in omitted(ours, newer)


SAMPLES = {
    FIELD.TYPE_STRING: "é",
    FIELD.TYPE_BYTES: b"\0\xff",
    FIELD.TYPE_BOOL: True,
    FIELD.TYPE_FLOAT: -1.5,
    FIELD.TYPE_DOUBLE: 2.25,
    FIELD.TYPE_INT32: -7,
    FIELD.TYPE_UINT32: 3000000000,
    FIELD.TYPE_UINT64: 1 << 63,
}


def fill(message, known):
    """Gives every field that `known` (our descriptor of the message) has too a value other than its
    default; of a oneof the first member."""
    for field in message.DESCRIPTOR.fields:
        ours = known.fields_by_number.get(field.number)
        oneof = field.containing_oneof
        if ours is None or (oneof and message.WhichOneof(oneof.name)):
            continue
        if field.message_type and field.message_type.GetOptions().map_entry:
            value, entries = field.message_type.fields_by_name["value"], getattr(message, field.name)
            text = field.message_type.fields_by_name["key"].type == FIELD.TYPE_STRING
            key = str if text else int
            if value.message_type:
                fill(entries["a"], ours.message_type.fields_by_name["value"].message_type)
                continue
            if value.type == FIELD.TYPE_STRING:
                entries["a"] = "b"
                continue
            getattr(message, field.name).update({key(-1): 0.5, key(49151): -100.0})
        elif field.message_type and field.is_repeated:
            for _ in range(2):
                fill(getattr(message, field.name).add(), ours.message_type)
        elif field.message_type:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), ours.message_type)
        elif field.is_repeated:
            getattr(message, field.name).extend([SAMPLES[field.type]] * 2)
        else:
            setattr(message, field.name, SAMPLES[field.type])


def unknown(message):
    """The fields of a decoded message, at any depth, that its descriptor does not have."""
    yield from unknown_fields.UnknownFieldSet(message)
    for field, value in message.ListFields():
        if field.message_type and not field.message_type.GetOptions().map_entry:
            for child in value if field.is_repeated else [value]:
                yield from unknown(child)


def test_their_bytes_survive_our_decoder(ours):
    pool = descriptor_pool.DescriptorPool()
    for file in ours.file:
        pool.Add(file)
    seen = 0
    for module in THEIRS:
        for name, descriptor in module.DESCRIPTOR.message_types_by_name.items():
            try:
                mine = pool.FindMessageTypeByName(f"{module.DESCRIPTOR.package}.{name}")
            except KeyError:
                continue
            message = message_factory.GetMessageClass(descriptor)()
            fill(message, mine)
            wire = message.SerializeToString(deterministic=True)
            back = message_factory.GetMessageClass(mine).FromString(wire)
            assert back.SerializeToString(deterministic=True) == wire, name
            assert not list(unknown(back)), name
            seen += bool(wire)
    assert seen > 35
