//go:build clients

package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/internal/testkafka"
)

// Where things are, from this directory.
const (
	root      = "../.."
	installed = root + "/.cache/clients"
	readme    = root + "/README.md"
	producers = root + "/docs/producers.md"
)

// snippet is one fenced block of a document.
type snippet struct{ file, language, text string }

// runnable are the languages whose blocks are programs. Blocks in others are not run.
var runnable = map[string]func(t *testing.T, dir, text string) *exec.Cmd{
	"sh": func(t *testing.T, dir, text string) *exec.Cmd {
		return exec.Command("bash", "-eu", "-o", "pipefail", write(t, dir, "example.sh", text))
	},
	"python": func(t *testing.T, dir, text string) *exec.Cmd {
		return exec.Command(path(t, installed+"/venv/bin/python"), write(t, dir, "example.py", text))
	},
	"java": func(t *testing.T, dir, text string) *exec.Cmd {
		class := regexp.MustCompile(`(?m)^(?:public )?class (\w+)`).FindStringSubmatch(text)
		require.NotNil(t, class, "no class in:\n%s", text)
		return java(t, dir, write(t, dir, class[1]+".java", text))
	},
	"go": func(t *testing.T, dir, text string) *exec.Cmd {
		cmd := exec.Command("go", "run", write(t, dir, "main.go", text))
		cmd.Dir = path(t, root) // for the modules
		return cmd
	},
	"js": func(t *testing.T, dir, text string) *exec.Cmd {
		require.NoError(t, os.Symlink(path(t, installed+"/node/node_modules"), filepath.Join(dir, "node_modules")))
		return exec.Command("node", write(t, dir, "orders.mjs", text))
	},
}

// java runs a source file as the documents say, with the jars in libs.
func java(t *testing.T, dir, file string, args ...string) *exec.Cmd {
	t.Helper()
	jars, err := testkafka.ClientJars()
	require.NoError(t, err)
	libs := filepath.Join(dir, "libs")
	require.NoError(t, os.MkdirAll(libs, 0o755))
	for _, jar := range jars {
		require.NoError(t, os.Symlink(jar, filepath.Join(libs, filepath.Base(jar))))
	}
	return exec.Command("java", append([]string{"-cp", "libs/*", filepath.Base(file)}, args...)...)
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func path(t *testing.T, relative string) string {
	t.Helper()
	p, err := filepath.Abs(relative)
	require.NoError(t, err)
	_, err = os.Stat(p)
	require.NoError(t, err, "run make test-clients, which installs it")
	return p
}

var fenced = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// blocks are the fenced blocks of a document.
func blocks(t *testing.T, file string) (all []snippet) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, b := range fenced.FindAllStringSubmatch(string(text), -1) {
		all = append(all, snippet{file, b[1], b[2]})
	}
	return all
}

// programs are the blocks to run: those of the languages that we know.
func programs(t *testing.T) (all []snippet) {
	t.Helper()
	for file, want := range map[string][]string{
		readme:    {"sh", "python", "java"},
		producers: {"sh", "python", "java", "go", "js"},
	} {
		var languages []string
		for _, b := range blocks(t, file) {
			if runnable[b.language] != nil {
				languages, all = append(languages, b.language), append(all, b)
			}
		}
		require.Equal(t, want, languages, "the programs in %s", file)
	}
	return all
}

// smallestConfig is the configuration that README.md calls so.
func smallestConfig(t *testing.T) string {
	t.Helper()
	for _, b := range blocks(t, readme) {
		if b.language == "yaml" && strings.Contains(b.text, "brokers: [localhost:9092]") {
			return b.text
		}
	}
	require.Fail(t, "no configuration for localhost:9092 in "+readme)
	return ""
}

// outcome is how a program ended.
type outcome struct {
	name   string
	output string
	err    error
}

// patience is for what compiles and starts beside all others on a busy machine.
const patience = 3 * time.Minute

// launch runs a command in a directory, and tells how it ended.
func launch(t *testing.T, name, dir string, cmd *exec.Cmd, done chan<- outcome) {
	t.Helper()
	if cmd.Dir == "" {
		cmd.Dir = dir
	}
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(t, cmd.Start(), name)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // it has not ended in time
	go func() {
		defer cancel()
		err := cmd.Wait()
		stop()
		done <- outcome{name, output.String(), err}
	}()
}
