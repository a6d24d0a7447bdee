package credential

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/internal/testkafka"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestSecretIsTheFileAsItIsNow(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "password"), "first\r\n")
	secret, err := OpenSecret(path, nil)
	require.NoError(t, err)
	require.Equal(t, "first", secret.Now())

	write(t, path, " second ")

	require.Equal(t, " second ", secret.Now())
}

func TestBrokenFileKeepsTheLastGoodValueAndIsReportedOnce(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "password"), "geheim")
	var told []string
	secret, err := OpenSecret(path, func(err error) {
		if err == nil {
			err = errors.New("over")
		}
		told = append(told, err.Error())
	})
	require.NoError(t, err)
	for _, text := range []string{"", "\n", "two\nlines"} {
		write(t, path, text)
		require.Equal(t, "geheim", secret.Now())
		require.Equal(t, "geheim", secret.Now())
	}
	require.NoError(t, os.Remove(path))
	require.Equal(t, "geheim", secret.Now())
	write(t, path, "neu")

	require.Equal(t, "neu", secret.Now())
	require.Equal(t, "neu", secret.Now())

	require.Equal(t, []string{
		"read " + path + ": it is empty",
		"read " + path + ": it has more than one line: want nothing but the secret",
		"read " + path + ": no such file or directory",
		"over",
	}, told)
}

func TestPairIsRenewedOnlyWhenBothFilesBelongTogether(t *testing.T) {
	authority := testkafka.NewAuthority(t)
	first, second := authority.Issue(t, "first"), authority.Issue(t, "second")
	cert, key := first.Files(t)
	pair, err := OpenPair(cert, key, nil)
	require.NoError(t, err)
	require.Equal(t, "first", pair.Now().Leaf.Subject.CommonName)

	write(t, cert, string(second.Cert))
	require.Equal(t, "first", pair.Now().Leaf.Subject.CommonName, "the key is still the old one")
	write(t, key, string(second.Key))

	require.Equal(t, "second", pair.Now().Leaf.Subject.CommonName)
}

func TestFilesThatCannotServeSayWhy(t *testing.T) {
	dir := t.TempDir()
	issued := testkafka.NewAuthority(t).Issue(t, "me")
	cert, key := issued.Files(t)
	none := filepath.Join(dir, "none")
	noise := write(t, filepath.Join(dir, "noise"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	locked := write(t, filepath.Join(dir, "locked"), "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
	large := write(t, filepath.Join(dir, "large"), strings.Repeat("x", maxFile+1))
	authorities := func(path string) error { _, err := OpenAuthorities(path, nil); return err }
	pair := func(cert, key string) error { _, err := OpenPair(cert, key, nil); return err }

	require.NoError(t, authorities(cert))
	require.ErrorContains(t, authorities(none), "none: no such file")
	require.ErrorContains(t, authorities(dir), "is a directory")
	require.ErrorContains(t, authorities(key), "there is no PEM certificate in it")
	require.ErrorContains(t, authorities(noise), "certificate 1: ")
	require.ErrorContains(t, authorities(large), "larger than 4 MiB")
	require.ErrorContains(t, pair(key, cert), "certificate and key: ")
	require.ErrorContains(t, pair(cert, none), "none: no such file")
	require.ErrorContains(t, pair(cert, locked), "the key is encrypted")
}
