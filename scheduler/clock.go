package scheduler

import (
	"sync"
	"time"
)

// Clock is where time comes from. Wall decides what is due; Boot measures elapsed
// time and must count time that the machine was suspended (CLOCK_BOOTTIME), because
// a lease that stands still while the machine sleeps would let a zombie send.
type Clock struct {
	Wall func() time.Time
	Boot func() time.Duration
}

// Jump says what follows when wall time leaps ahead of elapsed time.
type Jump uint8

// What to do after a leap.
const (
	// JumpHold holds sends until fresh records confirm the new time.
	JumpHold Jump = iota
	// JumpSend believes the clock.
	JumpSend
)

// clockWatch compares wall time with elapsed time and with the brokers' append
// times. All partitions share it; the mutex guards every field.
type clockWatch struct {
	maxSkew time.Duration
	onJump  Jump

	mu       sync.Mutex
	known    bool
	baseline time.Duration // wall minus boot when last believed
	leap     time.Duration // how far ahead of it wall time is; 0: believed
	behind   time.Duration // how far the brokers' clocks are ahead of ours; 0: within max skew
}

// observe takes one reading of both clocks and says whether sends are to be held.
// A step back needs no hold: it makes nothing early.
func (c *clockWatch) observe(wall time.Time, boot time.Duration) (held bool) {
	diff := time.Duration(wall.UnixNano()) - boot
	c.mu.Lock()
	defer c.mu.Unlock()
	switch ahead := diff - c.baseline; {
	case !c.known:
		c.known, c.baseline = true, diff
	case ahead > c.maxSkew && c.onJump == JumpHold:
		c.leap = ahead
	default:
		// Within the tolerance the baseline follows, so that slow drift and the
		// smearing of a leap second never add up to a leap.
		c.baseline, c.leap = diff, 0
	}
	return c.leap > 0
}

// fresh takes the append time of a record that the brokers have only just appended.
func (c *clockWatch) fresh(append time.Time, wall time.Time, boot time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lead := append.Sub(wall)
	if lead > c.maxSkew {
		c.behind = lead
		return
	}
	c.behind = 0
	if c.leap > 0 && -lead <= c.maxSkew {
		c.baseline, c.leap = time.Duration(wall.UnixNano())-boot, 0
	}
}

// state gives the leap being held and how far we are behind the brokers.
func (c *clockWatch) state() (leap, behind time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leap, c.behind
}
