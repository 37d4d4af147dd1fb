"""Queue semantics: runs the machines of `nexus.groups.sharing` for the partitions led here.

Where the state is kept. What is acknowledged, and how often a message was tried, is written to the
compacted topic `__share_group_state`, before an acknowledgement is confirmed. All groups of a
partition have their state in one partition of that topic, by a hash of the topic's id and the
partition; its leader may be another broker, and is then asked over the wire (`ReadShareGroupState`,
`WriteShareGroupState`, as in Kafka). In a static cluster it is one that the partition's own broker
leads, so that no other broker needs to be up.

Why this is safe. Every read and write carries the epoch in which the asking broker leads the data
partition. The keeper of the state stores the highest epoch that it saw, durably, before it answers
a read, and refuses earlier ones from then on. So a new leader first shuts out the old one, then
reads; the old one can confirm nothing any more, and what it confirmed before is there. A write that
is repeated because its answer was lost changes nothing. The state's own log is as safe as any
acks=all write, and its leader changes as any partition's does.
"""
