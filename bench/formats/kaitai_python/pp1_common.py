# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from enum import IntEnum


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class Pp1Common(KaitaiStruct):
    """The frame header, the enumerations and the constants of PP1 wire version 2. Everything is little-endian and
    naturally aligned; reserved bytes are zero. Keys that begin with "-pp1-" are this project's own: Kaitai's compiler
    ignores them, the project's generator reads them.
    """

    class CommitKind(IntEnum):
        none = 0
        correction = 1
        bonus = 2
        target_only = 3

    class CompletionStatus(IntEnum):
        ok = 0
        model_error = 1
        prefix_mismatch = 2
        unsupported = 3
        capacity = 4
        draining = 5
        cancelled = 6
        internal = 7

    class DraftOrigin(IntEnum):
        native = 1
        adapted = 2

    class HelloRole(IntEnum):
        offer = 1
        answer = 2

    class HelloStatus(IntEnum):
        accepted = 0
        refused = 1

    class MessageType(IntEnum):
        hello = 1
        step = 2
        reply = 3
        completion = 4
        commit = 5
        reset = 6

    class RefusalReason(IntEnum):
        none = 0
        q_semantic = 1
        verifier_semantic = 2
        rng_abi = 3
        precision = 4
        vocabulary = 5
        id_map = 6
        draft = 7
        target = 8
        features = 9
        representation = 10
        capacity = 11
        draining = 12

    class RejectCode(IntEnum):
        bad_magic = 1
        unsupported_version = 2
        header_checksum_mismatch = 3
        unknown_message_type = 4
        oversized_body = 5
        wrong_body_length = 6
        truncated = 7
        extra_data = 8
        header_reserved_not_zero = 9
        header_out_of_bounds = 10
        sequence_mismatch = 11
        agreement_mismatch = 12
        wrong_direction = 13
        unexpected_message = 14
        data_before_agreement = 15
        slot_mismatch = 16
        session_never_issued = 17
        generation_never_issued = 18
        round_never_issued = 19
        stale_session = 20
        stale_generation = 21
        stale_round = 22
        session_not_rising = 23
        generation_not_next = 24
        round_not_next = 25
        slot_occupied = 26
        session_not_open = 27
        body_checksum_mismatch = 30
        reserved_not_zero = 31
        value_out_of_bounds = 32
        unknown_value = 33
        token_out_of_range = 34
        token_padded = 35
        prefix_digest_mismatch = 36
        position_mismatch = 37
        text_not_canonical = 40
        wrong_role = 41
        nonce_not_fresh = 42
        refusal_mismatch = 43
        padded_vocab_too_small = 44
        hello_refused = 45
        q_semantic_mismatch = 46
        verifier_semantic_mismatch = 47
        rng_abi_mismatch = 48
        precision_mismatch = 49
        vocab_size_mismatch = 50
        padded_vocab_size_mismatch = 51
        id_map_mismatch = 52
        draft_checkpoint_mismatch = 53
        draft_revision_mismatch = 54
        draft_origin_mismatch = 55
        target_mismatch = 56
        unknown_features = 57
        representation_not_offered = 58
        reply_does_not_fit = 59
        prefix_count_mismatch = 60
        reset_reason_mismatch = 61
        temperature_not_positive = 65
        depth_over_agreement = 66
        support_mismatch = 67
        position_overflow = 68
        round_still_open = 69
        proposal_seed_changed = 70
        context_changed = 71
        representation_mismatch = 80
        shard_mismatch = 81
        missing_q = 82
        entry_count_mismatch = 83
        sparse_padding_not_zero = 84
        dense_padding_not_zero = 85
        id_out_of_range = 86
        id_padded = 87
        ids_duplicate = 88
        ids_unsorted = 89
        q_not_finite = 90
        q_negative = 91
        q_negative_zero = 92
        q_not_dyadic = 93
        q_zero_entry = 94
        q_mass_mismatch = 95
        q_zero_at_token = 96
        reply_position_mismatch = 97
        reply_position_duplicate = 98
        too_many_rows = 99
        support_over_step = 100
        ticket_mismatch = 101
        completion_position_mismatch = 110
        completion_context_mismatch = 111
        completion_rows_mismatch = 112
        completion_bytes_mismatch = 113
        completion_checksum_mismatch = 114
        too_many_discards = 115
        commit_count_mismatch = 120
        commit_padding_not_zero = 121
        commit_over_depth = 122
        commit_token_mismatch = 123
        commit_position_mismatch = 124
        commit_digest_mismatch = 125

    class Representation(IntEnum):
        dense = 1
        sparse = 2

    class ResetReason(IntEnum):
        open = 1
        fault = 2
        cancel = 3
        close = 4

    class SupportPolicy(IntEnum):
        full = 1
        top_k = 2
    def __init__(self, _io, _parent=None, _root=None):
        super(Pp1Common, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        pass


    def _fetch_instances(self):
        pass

    class FrameHeader(KaitaiStruct):
        """The 64 bytes before every body. Magic, version, type, length and header checksum stay where they are in every
        wire version.
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(Pp1Common.FrameHeader, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.magic = self._io.read_bytes(4)
            if not self.magic == b"\x50\x50\x31\x57":
                raise kaitaistruct.ValidationNotEqualError(b"\x50\x50\x31\x57", self.magic, self._io, u"/types/frame_header/seq/0")
            self.wire_version = self._io.read_u2le()
            if not self.wire_version == 2:
                raise kaitaistruct.ValidationNotEqualError(2, self.wire_version, self._io, u"/types/frame_header/seq/1")
            self.message_type = KaitaiStream.resolve_enum(Pp1Common.MessageType, self._io.read_u1())
            if not isinstance(self.message_type, Pp1Common.MessageType):
                raise kaitaistruct.ValidationNotInEnumError(self.message_type, self._io, u"/types/frame_header/seq/2")
            self.reserved_1 = self._io.read_bytes(1)
            if not self.reserved_1 == b"\x00":
                raise kaitaistruct.ValidationNotEqualError(b"\x00", self.reserved_1, self._io, u"/types/frame_header/seq/3")
            self.sequence = self._io.read_u8le()
            self.body_length = self._io.read_u4le()
            self.slot = self._io.read_u2le()
            if not self.slot <= 3:
                raise kaitaistruct.ValidationGreaterThanError(3, self.slot, self._io, u"/types/frame_header/seq/6")
            self.reserved_2 = self._io.read_bytes(2)
            if not self.reserved_2 == b"\x00\x00":
                raise kaitaistruct.ValidationNotEqualError(b"\x00\x00", self.reserved_2, self._io, u"/types/frame_header/seq/7")
            self.agreement_id = self._io.read_u8le()
            self.session = self._io.read_u8le()
            self.generation = self._io.read_u4le()
            self.round = self._io.read_u4le()
            self.body_checksum = self._io.read_u8le()
            self.header_checksum = self._io.read_u8le()


        def _fetch_instances(self):
            pass



