package forward

import "time"

// namesPerLane sizes the cache of refused names: this many for each lane.
const namesPerLane = 4

// refusedName is what is kept of a refused target that has lost its lane.
type refusedName struct {
	askedAt time.Duration
	err     *Error
	refused refusals
	failed  int
}

// nameCache remembers refused names whose lanes were dropped, so that a producer that
// invents names neither makes us ask the cluster for one of them again and again nor
// sets back the clock after which its records are given up. It is bounded; what it
// forgets is asked for again, no more often than the allowance for questions permits.
type nameCache struct {
	most   int
	byName map[string]refusedName
}

func newNameCache(most int) nameCache {
	return nameCache{most: most, byName: map[string]refusedName{}}
}

func (c *nameCache) get(name string) (refusedName, bool) {
	n, ok := c.byName[name]
	return n, ok
}

func (c *nameCache) remove(name string) { delete(c.byName, name) }

// put keeps a name, at the price of the one asked for longest ago among a few.
func (c *nameCache) put(name string, n refusedName) {
	if len(c.byName) >= c.most {
		const sample = 16 // Go's map order is random enough
		oldest, seen := "", 0
		for k, v := range c.byName {
			if seen == 0 || v.askedAt < c.byName[oldest].askedAt {
				oldest = k
			}
			if seen++; seen == sample {
				break
			}
		}
		delete(c.byName, oldest)
	}
	c.byName[name] = n
}

// sweep forgets names that nobody has asked for in a while, when their story would
// begin anew anyway.
func (c *nameCache) sweep(at, keep time.Duration) {
	for name, n := range c.byName {
		if at-n.askedAt > max(keep, askEvery) {
			delete(c.byName, name)
		}
	}
}

// allowance permits something a number of times at once and then at a rate.
type allowance struct {
	most   float64
	rate   float64 // per second
	left   float64
	filled time.Duration
}

func newAllowance(most int, rate float64) allowance {
	return allowance{most: float64(most), rate: rate, left: float64(most)}
}

// take uses one up, if there is one left.
func (a *allowance) take(at time.Duration) bool {
	a.left = min(a.most, a.left+(at-a.filled).Seconds()*a.rate)
	a.filled = at
	if a.left < 1 {
		return false
	}
	a.left--
	return true
}
