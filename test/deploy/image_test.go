package deploy

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// uid is the user of the image, as a number.
func uid(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^USER (\d+):\d+$`).FindStringSubmatch(file(t, "Dockerfile"))
	require.NotNil(t, m, "Kubernetes can check runAsNonRoot only of a number")
	return m[1]
}

// imageEnv is the environment that the image sets.
func imageEnv(t *testing.T) []string {
	t.Helper()
	return regexp.MustCompile(`SCHEDULER_[A-Z_]+=\S+`).FindAllString(file(t, "Dockerfile"), -1)
}

func TestImageIsOneFileThatRunsAsANumberAndPullsNothing(t *testing.T) {
	text := file(t, "Dockerfile")
	require.Equal(t, []string{"FROM scratch"}, regexp.MustCompile(`(?m)^FROM .*$`).FindAllString(text, -1))
	require.Len(t, regexp.MustCompile(`(?m)^(COPY|ADD) `).FindAllString(text, -1), 1)
	require.NotContains(t, text, "\nRUN ")
	require.NotEqual(t, "0", uid(t))
	require.Contains(t, text, "\nCMD [\"run\", \"-c\", \"/etc/delay-scheduler/scheduler.yaml\"]")
	require.Contains(t, text, "HEALTHCHECK")
	require.Contains(t, text, "CMD [\"/usr/local/bin/scheduler\", \"health\"]", "scratch has no shell")
	require.Contains(t, imageEnv(t), "SCHEDULER_HTTP_LISTEN=0.0.0.0:8080")
	copied := regexp.MustCompile(`(?m)^COPY (\S+)`).FindStringSubmatch(text)[1]
	require.Contains(t, file(t, ".dockerignore"), "\n!"+copied+"\n")
	require.Contains(t, file(t, "Makefile"), "CGO_ENABLED=0")
	require.Contains(t, strings.ReplaceAll(file(t, "Makefile"), "$(BIN)", "bin"), "-o "+copied+" ")
}
