"""The protobuf messages of both protobuf formats, described here because that needs no compiler."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import api_implementation

from .codec import NUMBERS

_FIELD = descriptor_pb2.FieldDescriptorProto
BACKEND: str = api_implementation.Type()
"""`upb` where protobuf is as fast as it gets in Python."""


def _message(file: descriptor_pb2.FileDescriptorProto, name: str, ids: tuple[int, int], q: tuple[int, int]) -> None:
    row = file.message_type.add(name=f"{name}Row")
    for number, field in enumerate(NUMBERS, 1):
        kind = (
            _FIELD.TYPE_UINT64 if field == "session" else _FIELD.TYPE_INT32 if field == "token" else _FIELD.TYPE_UINT32
        )
        row.field.add(name=field, number=number, type=kind, label=_FIELD.LABEL_OPTIONAL)
    for number, (field, (kind, label)) in enumerate((("ids", ids), ("q", q)), 1 + len(NUMBERS)):
        row.field.add(name=field, number=number, type=kind, label=label)  # proto3 packs repeated numbers
    batch = file.message_type.add(name=f"{name}Batch")
    batch.field.add(
        name="rows", number=1, type=_FIELD.TYPE_MESSAGE, label=_FIELD.LABEL_REPEATED, type_name=f".pp1bench.{name}Row"
    )


def _classes() -> tuple[Any, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="pp1bench.proto", package="pp1bench", syntax="proto3")
    one = (_FIELD.TYPE_BYTES, _FIELD.LABEL_OPTIONAL)
    _message(file, "Bytes", one, one)
    _message(
        file, "Repeated", (_FIELD.TYPE_SFIXED32, _FIELD.LABEL_REPEATED), (_FIELD.TYPE_FLOAT, _FIELD.LABEL_REPEATED)
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(f"pp1bench.{name}Batch") for name in ("Bytes", "Repeated"))
    first, second = (message_factory.GetMessageClass(descriptor) for descriptor in found)
    return first, second


BytesBatch, RepeatedBatch = _classes()


def numbers(row: Any) -> tuple[int, ...]:
    return (row.session, row.slot, row.generation, row.round, row.position, row.token, row.entries)
