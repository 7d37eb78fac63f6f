"""An independent check of a recorded run: nothing here is shared with the decoder or the rules.

Everything that one recorded number says about another is derived again, with plain arithmetic: the
tree's shape and values, what rerank kept, the order of the trials, every accept probability, verdict,
normaliser and residual, the final token's interval, what was emitted and from where, the counts, and
every draw from the seed. Last comes the checksum, for the numbers that no other one depends on.

Recorded numbers have six significant digits, so a difference is a fault only where rounding cannot
explain it. Start reading at ``run.py``.
"""

from eagle.audit.file import audit_file
from eagle.audit.finding import Finding
from eagle.audit.run import audit, first_fault

__all__ = ["Finding", "audit", "audit_file", "first_fault"]
