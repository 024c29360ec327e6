# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
import pp1_common


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class Pp1Reply(KaitaiStruct):
    """One drafted position: the token and the distribution it was drawn from, conditioned on the committed prefix and on the
    tokens before it in this proposal. A row is two columns, ids then q; a dense row has only q. Its length is fixed by the
    agreement, unused entries are zero.
    """
    def __init__(self, id_entries, q_entries, _io, _parent=None, _root=None):
        super(Pp1Reply, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self.id_entries = id_entries
        self.q_entries = q_entries
        self._read()

    def _read(self):
        self.header = pp1_common.Pp1Common.FrameHeader(self._io)
        self.position = self._io.read_u4le()
        self.token = self._io.read_s4le()
        self.entry_count = self._io.read_u4le()
        self.representation = KaitaiStream.resolve_enum(pp1_common.Pp1Common.Representation, self._io.read_u1())
        if not isinstance(self.representation, pp1_common.Pp1Common.Representation):
            raise kaitaistruct.ValidationNotInEnumError(self.representation, self._io, u"/seq/4")
        self.reserved_1 = self._io.read_bytes(3)
        if not self.reserved_1 == b"\x00\x00\x00":
            raise kaitaistruct.ValidationNotEqualError(b"\x00\x00\x00", self.reserved_1, self._io, u"/seq/5")
        self.shard_first_id = self._io.read_u4le()
        self.shard_id_count = self._io.read_u4le()
        self.reserved_2 = self._io.read_bytes(8)
        if not self.reserved_2 == b"\x00\x00\x00\x00\x00\x00\x00\x00":
            raise kaitaistruct.ValidationNotEqualError(b"\x00\x00\x00\x00\x00\x00\x00\x00", self.reserved_2, self._io, u"/seq/8")
        self.ids = []
        for i in range(self.id_entries):
            self.ids.append(self._io.read_s4le())

        self.q = []
        for i in range(self.q_entries):
            self.q.append(self._io.read_f4le())



    def _fetch_instances(self):
        pass
        self.header._fetch_instances()
        for i in range(len(self.ids)):
            pass

        for i in range(len(self.q)):
            pass



