//go:build clients

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// keys is how many keys Keys.java writes, of which every fifth is null.
const keys = 1000

// javaPrograms are those of testdata, to be run beside the examples.
func (w world) javaPrograms(t *testing.T) map[string]*exec.Cmd {
	t.Helper()
	all := make(map[string]*exec.Cmd)
	for name, args := range map[string][]string{
		"Keys.java": {address, strconv.Itoa(keys)},
		"Gaps.java": {address},
	} {
		dir := t.TempDir()
		source, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		all[name] = java(t, dir, write(t, dir, name, string(source)), args...)
		all[name].Dir = dir
	}
	return all
}

// checkKeys compares the topic that Keys.java wrote with the one that the scheduler did.
func (w world) checkKeys(t *testing.T) {
	straight := make(map[string]arrival)
	for _, r := range w.read(t, "straight").exactly(keys, patience) {
		straight[string(r.Value)] = r
	}
	require.Len(t, straight, keys)
	used := make(map[int32]bool)
	for _, r := range w.read(t, "keys").exactly(keys, patience) {
		was, ok := straight[string(r.Value)]
		require.True(t, ok, "value %q came twice or from nowhere", r.Value)
		delete(straight, string(r.Value))
		require.Equal(t, was.Key, r.Key, "the key of value %s", r.Value) // null is not empty
		if r.Key != nil {
			require.Equal(t, was.Partition, r.Partition, "the partition of key %q", r.Key)
			used[r.Partition] = true
		}
	}
	require.Len(t, used, w.partitions, "partitions with keys")
	dead := w.read(t, "keys-dlq").exactly(1, patience)
	require.Equal(t, "refused", string(dead[0].Value))
	require.Equal(t, "MALFORMED_HEADER", string(value(dead[0].Record, "dlq-reason")))
	require.Contains(t, string(value(dead[0].Record, "dlq-detail")), "delay-ms")
}

// checkGaps looks at what Gaps.java printed. The gaps of the embedded broker are listed in
// docs/producers.md: one that is closed has to leave that list, too.
func (w world) checkGaps(t *testing.T, said string) {
	for name, onDev := range map[string]bool{
		"createTopics": false, "describeTopics": false, "the topic": true, "LogAppendTime": false, "transactions": true,
	} {
		want := "gap: " + name + " does not work\n"
		if w.real || onDev {
			want = "gap: " + name + " works\n"
		}
		require.Contains(t, said, want)
	}
}
