package testkafka

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionIsTheDefaultUnlessTheEnvironmentNamesOne(t *testing.T) {
	t.Setenv(EnvVersion, "")
	require.Equal(t, DefaultVersion, Version())
	t.Setenv(EnvVersion, "3.9.1")
	require.Equal(t, "3.9.1", Version())
}

func TestLaunchRefusesWhatItCannotStart(t *testing.T) {
	for what, opt := range map[string]Option{
		`"latest"`:       WithVersion("latest"),
		`"../4.4.0"`:     WithVersion("../4.4.0"),
		"start 0 broker": WithBrokers(0),
		"start 4 broker": WithBrokers(4),
	} {
		_, err := Launch(opt)
		require.ErrorContains(t, err, what)
	}
}

func TestTestWithoutARealBrokerIsSkippedAndCounted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unproven")
	t.Setenv(EnvUnproven, file)
	t.Setenv(EnvBrokers, "")
	t.Setenv("JAVA_HOME", "/nowhere")
	skipped := make(map[string]bool)
	for name, test := range map[string]func(*testing.T){
		"need":  func(t *testing.T) { Need(t) },
		"start": func(t *testing.T) { Start(t) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() { skipped[name] = t.Skipped() }()
			test(t)
		})
	}

	require.Equal(t, map[string]bool{"need": true, "start": true}, skipped)
	said, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	require.Len(t, lines, 2)
	for _, line := range lines {
		require.Contains(t, line, t.Name()+"/")
		require.Contains(t, line, ": there is no Java on this machine")
	}
}

func TestUniqueNamesAreLegalAndDiffer(t *testing.T) {
	t.Run("Größe & ünïcode/"+strings.Repeat("x", 300), func(t *testing.T) {
		first, second := UniqueName(t), UniqueName(t)

		require.NotEqual(t, first, second)
		require.Regexp(t, `^[a-z0-9-]{1,150}$`, first)
	})
}

func TestLeftDirectoriesAreSweptAndUsedOnesAreNot(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used, err := newWorkdir()
	require.NoError(t, err)
	left, err := newWorkdir()
	require.NoError(t, err)
	require.NoError(t, left.lock.Close()) // As the kernel does when a process is killed.

	fresh, err := newWorkdir()

	require.NoError(t, err)
	require.NoDirExists(t, left.path)
	require.DirExists(t, used.path)
	require.DirExists(t, fresh.path)
	require.NoError(t, used.remove())
	require.NoError(t, fresh.remove())
}

func TestAddressesAreNotHandedOutTwice(t *testing.T) {
	seen := make(map[string]bool)
	for range 200 {
		addr, err := freeAddr()
		require.NoError(t, err)
		require.False(t, seen[addr], addr)
		seen[addr] = true
	}
}

func TestGroupsAreWhereARealBrokerKeepsThem(t *testing.T) {
	for group, hash := range map[string]int32{ // The absolute value of Java's "...".hashCode().
		"":                   0,
		"a":                  97,
		"hello":              99162322,
		"polygenelubricants": 0,         // The hash is the smallest int.
		"scheduler":          160710469, // The hash is negative.
	} {
		require.Equal(t, hash%50, offsetsPartition(group, 50), group)
	}
}
