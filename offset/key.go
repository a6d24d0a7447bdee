package offset

// TopicID is Kafka's identity of a topic: a topic that was deleted and made again has another.
type TopicID [16]byte
