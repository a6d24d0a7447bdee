package bucket

import "delay-scheduler/delay"

// Entry is one pending record.
type Entry struct {
	Due     int64 // epoch ms
	Offset  int64
	Lane    uint32        // the owner's number for the target
	Message delay.Message // nil when the payload was given up for memory
}

// Key is the entry's place in the order of leaving.
func (e *Entry) Key() Key { return Key{Due: e.Due, Offset: e.Offset} }
