package main

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNobodyIsAskedWhereNobodySits gives it what programs are started with.
func TestNobodyIsAskedWhereNobodySits(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, null.Close()) })
	pipe, end, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pipe.Close()) })
	require.NoError(t, end.Close())
	for _, in := range []io.Reader{null, pipe} {
		agreed, err := ask(in, io.Discard, "Remove everything?")
		require.False(t, agreed)
		require.ErrorContains(t, err, "--yes")
	}
}
