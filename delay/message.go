package delay

// Message is a pending record in one allocation.
type Message []byte
