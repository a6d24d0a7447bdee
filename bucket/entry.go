package bucket

import "delay-scheduler/delay"

// Entry is one pending record.
type Entry struct {
	Due     int64 // epoch ms
	Offset  int64
	Lane    uint32        // the owner's number for the target
	Message delay.Message // nil when the payload was given up for memory
}
