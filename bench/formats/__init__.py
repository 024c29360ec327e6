"""What people would use to send the same rows, each in a module of its own: `codec(agreement)` returns its `Codec`.

All of them carry session, slot, generation, round, position, token and entry count of every row, and its two columns.
"""

from __future__ import annotations

from pp1wire.wire import Agreement

from . import (
    construct_compiled,
    flatbuffers_tables,
    kaitai_reader,
    msgspec_structs,
    pickle_buffers,
    pp1,
    protobuf_bytes,
    protobuf_repeated,
    struct_unchecked,
)
from .codec import Codec

__all__ = ["MODULES", "Codec", "codecs"]

MODULES = (
    pp1,
    struct_unchecked,
    msgspec_structs,
    pickle_buffers,
    protobuf_bytes,
    protobuf_repeated,
    flatbuffers_tables,
    construct_compiled,
    kaitai_reader,
)


def codecs(agreement: Agreement) -> dict[str, Codec]:
    """Every format by its name, this package's first."""
    made = [module.codec(agreement) for module in MODULES]
    return {codec.name: codec for codec in made}
