"""Every scenario, the slowest first, so that two that run beside each other end together."""

import everybody
import files
import hostile
import live
import long
import moments
import writing

ALL = [*everybody.ALL[1:2], *hostile.ALL, *live.ALL, *writing.ALL, *moments.ALL, *files.ALL, everybody.ALL[0], *everybody.ALL[2:]]
# Measured, so alone.
ALONE = long.ALL
