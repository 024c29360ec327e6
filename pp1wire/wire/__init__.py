"""Bytes ↔ frozen messages: the layout, its checksums and limits, and the canonical rules of a row."""

from pp1wire.wire._schema_v2 import (
    Commit,
    CommitKind,
    Completion,
    CompletionStatus,
    DraftOrigin,
    Hello,
    HelloRole,
    HelloStatus,
    Message,
    MessageType,
    RefusalReason,
    RejectCode,
    Reply,
    Representation,
    Reset,
    ResetReason,
    Step,
    SupportPolicy,
)
from pp1wire.wire.agreement import Agreement, agreement_id
from pp1wire.wire.batch import ReplyBatch
from pp1wire.wire.checksums import PrefixDigest, prefix_digest, rows_checksum
from pp1wire.wire.encode_rows import encode_replies, seal_replies
from pp1wire.wire.frames import Frame, FrameSplitter
from pp1wire.wire.header import Header
from pp1wire.wire.limits import Limits
from pp1wire.wire.reader import FrameReader, decode, decode_frame, encode
from pp1wire.wire.reject import RemoteProtocolError
from pp1wire.wire.rows import decode_replies, read_rows

__all__ = [
    "Agreement",
    "Commit",
    "CommitKind",
    "Completion",
    "CompletionStatus",
    "DraftOrigin",
    "Frame",
    "FrameReader",
    "FrameSplitter",
    "Header",
    "Hello",
    "HelloRole",
    "HelloStatus",
    "Limits",
    "Message",
    "MessageType",
    "PrefixDigest",
    "RefusalReason",
    "RejectCode",
    "RemoteProtocolError",
    "Reply",
    "ReplyBatch",
    "Representation",
    "Reset",
    "ResetReason",
    "Step",
    "SupportPolicy",
    "agreement_id",
    "decode",
    "decode_frame",
    "decode_replies",
    "encode",
    "encode_replies",
    "prefix_digest",
    "read_rows",
    "rows_checksum",
    "seal_replies",
]
