package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

func loanOf() (*tap, *loan) {
	t := new(tap)
	k := &kept{tap: t, body: make([]byte, 8)}
	k.users.Store(1)
	return t, lend(&part{kept: k})
}

func TestResponseIsFreeOnceStreamAndReceiverAreDoneWithIt(t *testing.T) {
	tap, l := loanOf()
	var s sheets
	first, second := l.page(&s, new(sheet), nil), l.page(&s, new(sheet), nil)
	l.end()
	second.GiveBack()
	require.Nil(t, tap.spare, "the first page is in use")
	first.GiveBack()
	require.NotNil(t, tap.spare)
}

func TestPageThatIsGivenBackTwiceCountsOnce(t *testing.T) {
	tap, l := loanOf()
	var s sheets
	b := l.page(&s, new(sheet), nil)
	b.Release()
	b.Release()
	require.Nil(t, tap.spare, "the stream is not done with it")
	l.end()
	require.NotNil(t, tap.spare)
}

func TestSheetThatIsGivenBackHoldsNothing(t *testing.T) {
	used := new(sheet)
	headers := used.headers.cut(3)
	headers[2].Key = []byte("k")
	used.records = append(used.records, delay.Record{Value: []byte("v"), Headers: headers})
	records, large := used.records, used.headers.cut(slabHeaders+1)
	require.Len(t, large, slabHeaders+1)
	new(sheets).put(used)
	require.Zero(t, records[0])
	require.Zero(t, headers[2])
	again := used.headers.cut(2)
	require.Same(t, &headers[0], &again[0], "its memory is used again")
	require.Len(t, used.headers.pieces, 1)
}
