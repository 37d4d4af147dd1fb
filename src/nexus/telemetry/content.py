"""What messages say of their content; apart from the codecs, which take long to load."""

from typing import Final

JSON_TYPE: Final = "application/json"
ARROW_TYPE: Final = "application/vnd.apache.arrow.stream"
