package bucket

import (
	"math"
	"sync/atomic"
)

// Budget is the memory that the pending records of all partitions may take
// together, in bytes. Half of it is divided among the open accounts as guaranteed
// shares; the other half is a pool for whoever comes first. So a partition with a
// burst can take more than half of everything, and never so much that another one
// cannot go on.
//
// The total exceeds the limit in two cases only: an account that holds nothing may
// always take one record, whatever its size, since it could never go on otherwise; and
// Force takes for what exists already.
//
// All methods may be called concurrently.
type Budget struct {
	limit int64
	pool  int64 // the part of limit that is not divided into shares

	open   atomic.Int64 // accounts
	used   atomic.Int64 // by all accounts
	pooled atomic.Int64 // what accounts hold beyond their shares, each as of its last Take or Release

	asked atomic.Pointer[request]
}

// request is the most urgent of the recent Asks.
type request struct {
	due    int64
	serial uint64
	others int // less urgent Asks since
}

// asksKept is how many less urgent Asks it takes until a request is forgotten whose
// owner has not renewed it.
const asksKept = 64

// NewBudget makes a budget of limit bytes.
func NewBudget(limit int64) *Budget {
	return &Budget{limit: limit, pool: limit - limit/2}
}

// Limit is what the budget was made with.
func (b *Budget) Limit() int64 { return b.limit }

// Used is what all accounts hold.
func (b *Budget) Used() int64 { return b.used.Load() }

// Ask says that somebody could not keep a payload that is due at that time, in epoch
// ms: accounts that hold payloads due later should give some up. Who is still in need
// asks again.
func (b *Budget) Ask(due int64) {
	for {
		old := b.asked.Load()
		next := request{due: due, serial: 1}
		if old != nil {
			next.serial = old.serial + 1
			if due > old.due && old.others+1 < asksKept {
				next = request{due: old.due, serial: old.serial, others: old.others + 1}
			}
		}
		if b.asked.CompareAndSwap(old, &next) {
			return
		}
	}
}

// Asked gives the earliest due time that was asked for lately, and a number that is
// another after each Ask that lowered or renewed it: who finds the number that it saw
// last has nothing to do. Before the first Ask it is 0, and the due time beyond all.
// The two belong together. Asked is one atomic load, about a nanosecond, so a loop may
// look every turn.
//
// Lately means that fewer than 64 less urgent Asks came since; the next one replaces it.
func (b *Budget) Asked() (due int64, serial uint64) {
	r := b.asked.Load()
	if r == nil {
		return math.MaxInt64, 0
	}
	return r.due, r.serial
}

// Open makes an account. The shares of all others become smaller: who holds more
// than the new share is not asked to give anything back, but takes no more until
// what it holds beyond its share fits into the pool.
func (b *Budget) Open() *Account {
	b.open.Add(1)
	return &Account{budget: b}
}

// Account is one partition's part of a Budget. Used may be called by any
// goroutine; everything else belongs to the partition's.
type Account struct {
	budget *Budget
	used   atomic.Int64 // written by the owner only
	pooled int64        // what this account added to Budget.pooled
	closed bool
}

// Used is what the account holds.
func (a *Account) Used() int64 { return a.used.Load() }

// Take asks for n bytes. Within the account's share it gets them; beyond it, as
// long as the pool lasts. A closed account gets nothing.
//
// When accounts are opened or closed, what the others hold beyond their shares
// changes, and Budget.pooled follows as each of them takes or releases next. Until
// then a share that has just been promised may have to wait for what others hold.
// The limit never gives way: the total is raised by a compare-and-swap below it.
func (a *Account) Take(n int64) bool {
	if a.closed {
		return false
	}
	used := a.used.Load()
	if used == 0 {
		a.budget.used.Add(n)
		a.settle(n)
		return true
	}
	grown := a.beyondShare(used+n) - a.pooled
	if grown > 0 && !addBelow(&a.budget.pooled, grown, a.budget.pool) {
		return false
	}
	if !addBelow(&a.budget.used, n, a.budget.limit) {
		if grown > 0 {
			a.budget.pooled.Add(-grown)
		}
		return false
	}
	if grown < 0 { // the share has become larger
		a.budget.pooled.Add(grown)
	}
	a.pooled += grown
	a.used.Store(used + n)
	return true
}

// Force takes n bytes even beyond the limit: for structures that exist already, and for
// a record that is larger than any share. A closed account takes nothing.
func (a *Account) Force(n int64) {
	if a.closed {
		return
	}
	a.budget.used.Add(n)
	a.settle(a.used.Load() + n)
}

// Free is what Take would still give at this moment: what is left of the share and of
// the pool, and never less than nothing. It leaves aside that an account with nothing
// may take one record of any size.
func (a *Account) Free() int64 {
	if a.closed {
		return 0
	}
	b := a.budget
	room := a.pooled + max(0, b.pool-b.pooled.Load())
	free := b.share() + room - a.used.Load()
	return max(0, min(free, b.limit-b.used.Load()))
}

// Release gives n bytes back.
func (a *Account) Release(n int64) {
	if a.closed {
		return
	}
	a.settle(a.used.Load() - n)
	a.budget.used.Add(-n)
}

// settle stores what the account holds, and brings its part of the pool into line
// with the share of the moment, even if the pool is overdrawn by that.
func (a *Account) settle(used int64) {
	beyond := a.beyondShare(used)
	if grown := beyond - a.pooled; grown != 0 {
		a.budget.pooled.Add(grown)
		a.pooled = beyond
	}
	a.used.Store(used)
}

func (a *Account) beyondShare(used int64) int64 {
	return max(0, used-a.budget.share())
}

// Share is what the account is guaranteed at this moment.
func (a *Account) Share() int64 { return a.budget.share() }

// share is what each open account is guaranteed.
func (b *Budget) share() int64 { return (b.limit - b.pool) / max(1, b.open.Load()) }

// Close gives everything back and makes the other accounts' shares larger. Closing
// again does nothing.
func (a *Account) Close() {
	if a.closed {
		return
	}
	a.Release(a.used.Load())
	a.closed = true
	a.budget.open.Add(-1)
}

// addBelow adds n to v unless that would exceed the limit.
func addBelow(v *atomic.Int64, n, limit int64) bool {
	for {
		old := v.Load()
		if old+n > limit {
			return false
		}
		if v.CompareAndSwap(old, old+n) {
			return true
		}
	}
}
