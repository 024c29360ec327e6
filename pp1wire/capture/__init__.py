"""Reading captures, TCP reassembly, recording, and judging what was recorded."""
