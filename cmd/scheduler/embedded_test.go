package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The roots are looked for once in a process, so a child without any looks.
func TestCertificatesAreInTheBinaryForAMachineThatHasNone(t *testing.T) {
	if os.Getenv("SSL_CERT_FILE") == "/none" {
		pool, err := x509.SystemCertPool()
		require.NoError(t, err)
		require.False(t, pool.Equal(x509.NewCertPool()), "there are no roots")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), asScheduler+"=", "SSL_CERT_FILE=/none", "SSL_CERT_DIR=/none")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
