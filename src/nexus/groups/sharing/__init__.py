"""Queue semantics: every message of a partition to one consumer of a group at a time."""
