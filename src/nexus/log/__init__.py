"""The partitioned log on disk: the only code that touches data files. No asyncio, no sockets."""

from nexus.log.compaction import CompactionResult
from nexus.log.config import LogConfig
from nexus.log.files import FileSlice
from nexus.log.partition_log import Append, PartitionLog
from nexus.log.store import DataDirInUse, DataDirTooNew, LogStore
from nexus.log.topic_meta import TopicMeta
from nexus.log.verify import Corruption

__all__ = [
    "Append",
    "CompactionResult",
    "Corruption",
    "DataDirInUse",
    "DataDirTooNew",
    "FileSlice",
    "LogConfig",
    "LogStore",
    "PartitionLog",
    "TopicMeta",
]
