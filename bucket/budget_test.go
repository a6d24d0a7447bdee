package bucket

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnAccountAloneMayTakeEverything(t *testing.T) {
	t.Parallel()
	b := NewBudget(1000)
	a := b.Open()
	for range 10 {
		require.True(t, a.Take(100))
	}
	require.False(t, a.Take(1))
	require.Equal(t, int64(1000), b.Used())
	require.Equal(t, int64(1000), a.Used())
	a.Release(100)
	require.True(t, a.Take(100))
}

func TestABurstLeavesTheOthersTheirShares(t *testing.T) {
	t.Parallel()
	b := NewBudget(1000)
	burst, second, third, fourth := b.Open(), b.Open(), b.Open(), b.Open()
	takeAll(burst, 1)
	require.Equal(t, int64(500+125), burst.Used())
	for _, a := range []*Account{second, third, fourth} {
		takeAll(a, 1)
		require.Equal(t, int64(125), a.Used())
	}
	require.Equal(t, b.Limit(), b.Used())
}

func TestWhatIsReleasedBeyondTheShareGoesBackToThePool(t *testing.T) {
	t.Parallel()
	b := NewBudget(1000)
	first, second := b.Open(), b.Open()
	takeAll(first, 10)
	takeAll(second, 10)
	require.Equal(t, int64(750), first.Used())
	require.Equal(t, int64(250), second.Used())
	first.Release(300)
	require.True(t, second.Take(300))
	require.False(t, second.Take(1))
	require.False(t, first.Take(1))
}

func TestSharesFollowTheNumberOfAccounts(t *testing.T) {
	t.Parallel()
	b := NewBudget(1000)
	first := b.Open()
	takeAll(first, 10)
	second := b.Open() // the first holds what is now the second's share
	require.True(t, second.Take(10), "an account with nothing may take one record")
	require.False(t, second.Take(10))
	first.Release(200)
	require.False(t, first.Take(10), "beyond its new share only from the pool, which it has overdrawn")
	first.Release(50)
	takeAll(second, 10)
	require.Equal(t, int64(250), second.Used(), "its share")
	require.LessOrEqual(t, b.Used(), b.Limit())

	second.Close()
	takeAll(first, 10)
	require.Equal(t, b.Limit(), first.Used())
	require.Equal(t, b.Limit(), b.Used())
}

func TestAnAccountWithNothingMayTakeOneRecordOfAnySize(t *testing.T) {
	t.Parallel()
	b := NewBudget(100)
	full, empty := b.Open(), b.Open()
	takeAll(full, 1)
	require.True(t, empty.Take(5000))
	require.False(t, empty.Take(1))
	empty.Release(5000)
	require.True(t, empty.Take(5000))
}

func TestClosingGivesEverythingBackOnce(t *testing.T) {
	t.Parallel()
	b := NewBudget(1000)
	a, other := b.Open(), b.Open()
	require.True(t, a.Take(700))
	a.Close()
	a.Close()
	require.Zero(t, b.Used())
	require.Zero(t, a.Used())
	require.False(t, a.Take(1))
	a.Release(1)
	require.Zero(t, b.Used())
	takeAll(other, 1)
	require.Equal(t, int64(1000), other.Used())
}

func takeAll(a *Account, n int64) {
	for a.Take(n) {
	}
}

// Accounts come and go and take what they get, all at once. The limit is never
// exceeded by more than one record for each account, and once all have settled each
// of them gets its share whatever the others do.
func TestBudgetHoldsUnderConcurrency(t *testing.T) {
	t.Parallel()
	const limit, accounts, largest = 100_000, 8, 200
	r := newRand(t)
	b := NewBudget(limit)
	stop := make(chan struct{})
	var watch, work sync.WaitGroup
	var highest int64
	watch.Go(func() {
		for {
			highest = max(highest, b.Used())
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	})
	for range accounts {
		own := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		work.Go(func() { live(t, b, own, largest) })
	}
	work.Wait()
	close(stop)
	watch.Wait()
	require.LessOrEqual(t, highest, int64(limit+accounts*largest))
	require.Zero(t, b.Used())
	require.Zero(t, b.pooled.Load())
	require.Zero(t, b.open.Load())
}

// live opens an account three times and takes and releases at random.
func live(t *testing.T, b *Budget, r *rand.Rand, largest int64) {
	for range 3 {
		a := b.Open()
		var held []int64
		for range 3000 {
			n := 1 + r.Int64N(largest)
			if r.IntN(5) < 3 && a.Take(n) {
				held = append(held, n)
			} else if len(held) > 0 {
				i := r.IntN(len(held))
				a.Release(held[i])
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
			}
		}
		sum := int64(0)
		for _, n := range held {
			sum += n
		}
		if a.Used() != sum {
			t.Errorf("an account with %d says that it holds %d", sum, a.Used())
		}
		a.Close()
	}
}

// A single goroutine does what many would, so that after every step it can be said
// exactly what must be possible.
func TestBudgetAgreesWithItsRules(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	for range 50 {
		limit := 100 + r.Int64N(10_000)
		b := NewBudget(limit)
		accounts := make([]*Account, 1+r.IntN(6))
		for i := range accounts {
			accounts[i] = b.Open()
		}
		share := limit / 2 / int64(len(accounts))
		for range 500 {
			a := accounts[r.IntN(len(accounts))]
			n := 1 + r.Int64N(1+share/2)
			if r.IntN(3) == 0 {
				a.Release(r.Int64N(a.Used() + 1))
				continue
			}
			before, total := a.Used(), b.Used()
			beyond := int64(0)
			for _, other := range accounts {
				if other != a {
					beyond += max(0, other.Used()-share)
				}
			}
			beyond += max(0, before+n-share)
			possible := before == 0 || before+n <= share || beyond <= limit-limit/2
			require.Equal(t, possible, a.Take(n), "limit %d, share %d, had %d of %d, asked for %d", limit, share, before, total, n)
			require.LessOrEqual(t, b.Used(), limit)
		}
	}
}

func TestForceTakesBeyondTheLimit(t *testing.T) {
	t.Parallel()
	b := NewBudget(1000)
	a, other := b.Open(), b.Open()
	a.Force(1500)
	require.Equal(t, int64(1500), a.Used())
	require.Equal(t, int64(1500), b.Used())
	require.Zero(t, a.Free())
	require.False(t, a.Take(1))
	require.Zero(t, other.Free(), "there is nothing until the first gives back")
	a.Release(1250)
	require.Equal(t, int64(500), a.Free())
	require.Equal(t, int64(750), other.Free())
	a.Close()
	a.Force(10)
	require.Zero(t, b.Used())
	require.Zero(t, a.Free())
	require.Zero(t, b.pooled.Load())
}

// What Free says is what Take gives, to the byte.
func TestFreeIsWhatTakeGives(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	for range 2000 {
		b := NewBudget(1 + r.Int64N(10_000))
		accounts := make([]*Account, 1+r.IntN(5))
		for i := range accounts {
			accounts[i] = b.Open()
		}
		for range 10 {
			a := accounts[r.IntN(len(accounts))]
			switch r.IntN(4) {
			case 0:
				a.Force(r.Int64N(b.Limit()))
			case 1:
				a.Release(r.Int64N(a.Used() + 1))
			case 2:
				a.Take(r.Int64N(b.Limit()))
			default:
				b.Open()
			}
		}
		for _, a := range accounts {
			if a.Used() == 0 {
				continue
			}
			free := a.Free()
			require.False(t, a.Take(free+1))
			require.True(t, free == 0 || a.Take(free), "%d", free)
			require.Zero(t, a.Free())
		}
	}
}

func TestTheLeastDueOfTheRecentAsksCounts(t *testing.T) {
	t.Parallel()
	b := NewBudget(1000)
	due, first := b.Asked()
	require.Equal(t, int64(math.MaxInt64), due)

	b.Ask(500)
	due, serial := b.Asked()
	require.Equal(t, int64(500), due)
	require.NotEqual(t, first, serial)

	b.Ask(700) // less urgent
	due, same := b.Asked()
	require.Equal(t, int64(500), due)
	require.Equal(t, serial, same)

	for _, ask := range []int64{500, 300} { // renewed, lowered
		b.Ask(ask)
		due, next := b.Asked()
		require.Equal(t, ask, due)
		require.NotEqual(t, serial, next)
		serial = next
	}

	for i := range asksKept - 1 {
		b.Ask(900 + int64(i))
	}
	due, same = b.Asked()
	require.Equal(t, int64(300), due)
	require.Equal(t, serial, same)
	b.Ask(5000)
	due, next := b.Asked()
	require.Equal(t, int64(5000), due, "nobody has renewed the other for long")
	require.NotEqual(t, serial, next)
}

// Each due time is even and belongs to a serial: a reader never sees one with another's
// due time, and an urgent Ask is seen by all who look after it.
func TestAsksAreSeenWholeUnderConcurrency(t *testing.T) {
	t.Parallel()
	b := NewBudget(1000)
	var work sync.WaitGroup
	seen := make([]map[uint64]int64, 4)
	for i := range seen {
		seen[i] = map[uint64]int64{}
		work.Go(func() {
			last := uint64(0)
			for j := range 5000 {
				b.Ask(int64(1000 + (i*7919+j*31)%5000))
				due, serial := b.Asked()
				if serial < last {
					t.Errorf("serial %d after %d", serial, last)
				}
				last, seen[i][serial] = serial, due
			}
		})
	}
	work.Wait()
	all := map[uint64]int64{}
	for _, m := range seen {
		for serial, due := range m {
			if other, ok := all[serial]; ok {
				require.Equal(t, other, due)
			}
			all[serial] = due
		}
	}
	b.Ask(1)
	due, _ := b.Asked()
	require.Equal(t, int64(1), due)
}
