package bucket

// Defer puts a record, without a payload, into the far tier although its key is below
// the edge, which falls to it. It says no, and takes nothing, when a near record comes
// after it: then something nearer would have to wait for something farther.
func (x *Index) Defer(e Entry) bool {
	k := e.Key()
	if !x.Near(k) {
		return !x.Add(e)
	}
	after := k.Due
	if x.n > 0 {
		number, _ := split(k.Due)
		if last := x.queue.max(); number < last || number == last && !x.lastNear().Less(k) {
			return false
		}
		after = x.queue.min() * msPerSecond
	}
	x.far.add(record{due: e.Due, offset: e.Offset, lane: e.Lane}, after)
	return true
}

// lastNear bounds the greatest key of the near tier from above: exactly, unless its last
// second is being drained.
func (x *Index) lastNear() Key {
	number := x.queue.max()
	s := x.seconds[number]
	if s.low == opened {
		return Key{Due: number*msPerSecond + msPerSecond}
	}
	last := Key{Due: number * msPerSecond, Offset: leastOffset}
	s.each(func(e entry, _ int) {
		if k := (Key{Due: number*msPerSecond + int64(e.ms), Offset: e.offset}); last.Less(k) {
			last = k
		}
	})
	return last
}
