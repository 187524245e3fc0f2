# SPDX-License-Identifier: Apache-2.0
"""Goals of docs/performance.md: which are met, which missed, and which stay undecided."""

ROUNDS_LEAST = 3  # that a verdict needs
BUSY = 0.15  # share of the processors that others may use


class Judge:
    """Remembers what was missed, as (section, row)."""
    DECIDES = ROUNDS_LEAST

    def __init__(self, parts):
        self.parts, self.missed, self.undecided = parts, [], []

    def counting(self, section, rounds):
        """How many of the rounds may decide something: none where the machine was too busy."""
        return 0 if self.parts[section]["others"] > BUSY else rounds

    def verdict(self, section, row, values, goal, rounds, least=True):
        """"0.97, met"; of several kernels, which missed it. Without a goal nothing."""
        if not goal:
            return ""
        if rounds < ROUNDS_LEAST:
            self.undecided.append((section, row))
            return f"{goal:g}, not decided"
        missed = [name for name, value in values if (value < goal if least else value > goal)]
        if not missed:
            return f"{goal:g}, met"
        by = f" by {', '.join(missed)}" if len(values) > 1 else ""
        self.missed.append((section, row + by))
        return f"{goal:g}, **missed**{by}"
