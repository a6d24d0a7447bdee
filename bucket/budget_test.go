package bucket

import (
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
