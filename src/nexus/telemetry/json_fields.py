"""The fields of a reading in JSON, and the columns that they are."""

from typing import Final

# Always written, in this order: column, field.
LEADING_FIELDS: Final = {
    "source_metric": "metric_name",
    "gpu": "gpu_id",
    "uuid": "uuid",
    "device": "device",
    "hostname": "hostname",
}
# Written when there is something to say; field and column have one name.
CONTEXT_FIELDS: Final = ("unit", "cluster", "mig", "namespace", "pod", "container")
# The model travels among the labels, as exporters have it; beside them only if they name one too.
MODEL_LABEL: Final = "model_name"

FIELD_OF: Final = {**LEADING_FIELDS, **{name: name for name in CONTEXT_FIELDS}, "model": "model"}
