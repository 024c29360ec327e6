"""flatbuffers by its runtime's builder and tables, as flatc's output would call them; vectors go in and out as numpy arrays."""

from __future__ import annotations

import flatbuffers
from flatbuffers.number_types import Float32Flags, Int32Flags, Uint32Flags, Uint64Flags
from flatbuffers.table import Table

from pp1wire.wire import Agreement, ReplyBatch

from .codec import Codec, Row, columns

NAME = "flatbuffers"
_IDS, _Q, _FIELDS = 7, 8, 9
_FLAGS = (Uint64Flags, Uint32Flags, Uint32Flags, Uint32Flags, Uint32Flags, Int32Flags, Uint32Flags)


def _at(field: int) -> int:
    return 4 + 2 * field


def codec(agreement: Agreement) -> Codec:
    room = 256 + 4 * (agreement.id_entries + agreement.q_entries)

    def encode(batch: ReplyBatch) -> bytes:
        builder = flatbuffers.Builder(room * len(batch))
        tables = []
        for numbers, ids, q in columns(batch):
            vectors = builder.CreateNumpyVector(ids), builder.CreateNumpyVector(q)
            builder.StartObject(_FIELDS)
            builder.PrependUint64Slot(0, numbers[0], 0)
            for field in (1, 2, 3, 4, 6):
                builder.PrependUint32Slot(field, numbers[field], 0)
            builder.PrependInt32Slot(5, numbers[5], 0)
            builder.PrependUOffsetTRelativeSlot(_IDS, vectors[0], 0)
            builder.PrependUOffsetTRelativeSlot(_Q, vectors[1], 0)
            tables.append(builder.EndObject())
        builder.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            builder.PrependUOffsetTRelative(table)
        found = builder.EndVector()
        builder.StartObject(1)
        builder.PrependUOffsetTRelativeSlot(0, found, 0)
        builder.Finish(builder.EndObject())
        return bytes(builder.Output())

    return Codec(NAME, "nothing: the runtime for Python has no verifier", encode, decode, list)


def decode(data: bytes) -> list[Row]:
    root = Table(data, flatbuffers.encode.Get(flatbuffers.packer.uoffset, data, 0))
    field = root.Offset(_at(0))
    start, made = root.Vector(field), []
    for index in range(root.VectorLen(field)):
        row = Table(data, root.Indirect(start + 4 * index))
        numbers = tuple(row.GetSlot(_at(number), 0, flags) for number, flags in enumerate(_FLAGS))
        ids = row.GetVectorAsNumpy(Int32Flags, row.Offset(_at(_IDS)))
        made.append((numbers, ids, row.GetVectorAsNumpy(Float32Flags, row.Offset(_at(_Q)))))
    return made
