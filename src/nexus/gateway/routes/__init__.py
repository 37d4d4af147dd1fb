"""The endpoints: paths, parameters and descriptions. What they answer is in `answers`."""

from typing import Final

PREFIX: Final = "/api/v1"
