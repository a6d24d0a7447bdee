package deploy

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// service is as much of a service as is looked at. Whether the whole file is legal is for
// docker-compose to say, in test/containers.
type service struct {
	Image       string
	Environment map[string]string
	Volumes     []string
	Ports       []string
	Profiles    []string
	StopGrace   string                                `json:"stop_grace_period"`
	MemLimit    string                                `json:"mem_limit"`
	ReadOnly    bool                                  `json:"read_only"`
	CapDrop     []string                              `json:"cap_drop"`
	SecurityOpt []string                              `json:"security_opt"`
	DependsOn   map[string]struct{ Condition string } `json:"depends_on"`
}

func TestComposeFitsTheConfigurationBesideIt(t *testing.T) {
	var compose struct{ Services map[string]service }
	require.NoError(t, yaml.Unmarshal([]byte(file(t, "deploy/compose.yaml")), &compose))
	require.NotContains(t, file(t, "deploy/compose.yaml"), "\nversion:", "1.29 takes profiles and conditions only without it")
	s := compose.Services["scheduler"]
	e := load(t, file(t, "deploy/scheduler.yaml"), imageEnv(t))

	grace, err := time.ParseDuration(s.StopGrace)
	require.NoError(t, err)
	require.Greater(t, grace, e.drain(t)+leaving)
	limit, err := resource.ParseQuantity(strings.ToUpper(strings.TrimSuffix(s.MemLimit, "m")) + "Mi")
	require.NoError(t, err)
	requireRoom(t, e, limit.Value())
	require.NotEmpty(t, e.Group.InstanceID)
	require.EqualValues(t, 8080, e.port(t), "the image's health check asks there")
	require.Contains(t, s.Volumes, "./scheduler.yaml:/etc/delay-scheduler/scheduler.yaml:ro")
	require.Equal(t, "service_completed_successfully", s.DependsOn["topics"].Condition)
	require.Equal(t, "service_healthy", compose.Services["topics"].DependsOn["kafka"].Condition)

	for name, s := range compose.Services {
		for _, port := range s.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s serves %s to the network", name, port)
		}
		variable, image := "${SCHEDULER_IMAGE:-", name != "kafka" && name != "topics"
		if !image {
			variable = "${KAFKA_IMAGE:-"
		}
		require.True(t, strings.HasPrefix(s.Image, variable), "%s: %s", name, s.Image)
		if image {
			require.True(t, s.ReadOnly, name)
			require.Equal(t, []string{"ALL"}, s.CapDrop, name)
			require.Equal(t, []string{"no-new-privileges:true"}, s.SecurityOpt, name)
		}
	}
	require.Equal(t, []string{"sender"}, compose.Services["sender"].Profiles)
}

// leaving is what app allows for leaving the group after the drain.
const leaving = 10 * time.Second

// requireRoom says that a container's limit leaves room above the heap for what is not
// heap: stacks, code, and the collector being late.
func requireRoom(t *testing.T, e effective, limit int64) {
	t.Helper()
	require.GreaterOrEqual(t, limit, e.heap(t)+e.heap(t)/10,
		"memory limit %d is less than a tenth above the heap's %d (1.2 x budget + max_in_flight + 80 MiB)", limit, e.heap(t))
}
