package deploy

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const manifests = "deploy/kubernetes"

// decode reads a manifest as the API server does: a field that it does not have, or has in
// other letters (which yaml.UnmarshalStrict would take), is an error.
func decode[T any](t *testing.T, name, kind string) *T {
	t.Helper()
	text := []byte(file(t, filepath.Join(manifests, name)))
	var is metav1.TypeMeta
	require.NoError(t, yaml.Unmarshal(text, &is))
	require.Equal(t, kind, is.APIVersion+" "+is.Kind, name)
	into := new(T)
	converted, err := yaml.YAMLToJSONStrict(text)
	require.NoError(t, err, name)
	strict, err := kjson.UnmarshalStrict(converted, into)
	require.NoError(t, err, name)
	require.Empty(t, strict, name)
	return into
}

// set is everything in the directory.
type set struct {
	config      *corev1.ConfigMap
	deployment  *appsv1.Deployment
	sidecar     *appsv1.Deployment
	stateful    *appsv1.StatefulSet
	service     *corev1.Service
	budget      *policyv1.PodDisruptionBudget
	network     *networkingv1.NetworkPolicy
	autoscaling *autoscalingv2.HorizontalPodAutoscaler
}

func all(t *testing.T) set {
	t.Helper()
	return set{
		config:      decode[corev1.ConfigMap](t, "configmap.yaml", "v1 ConfigMap"),
		deployment:  decode[appsv1.Deployment](t, "deployment.yaml", "apps/v1 Deployment"),
		sidecar:     decode[appsv1.Deployment](t, "sidecar.yaml", "apps/v1 Deployment"),
		stateful:    decode[appsv1.StatefulSet](t, "statefulset.yaml", "apps/v1 StatefulSet"),
		service:     decode[corev1.Service](t, "service.yaml", "v1 Service"),
		budget:      decode[policyv1.PodDisruptionBudget](t, "poddisruptionbudget.yaml", "policy/v1 PodDisruptionBudget"),
		network:     decode[networkingv1.NetworkPolicy](t, "networkpolicy.yaml", "networking.k8s.io/v1 NetworkPolicy"),
		autoscaling: decode[autoscalingv2.HorizontalPodAutoscaler](t, "hpa.yaml", "autoscaling/v2 HorizontalPodAutoscaler"),
	}
}

func TestEveryManifestIsDecodedStrictly(t *testing.T) {
	all(t)
	entries, err := os.ReadDir(filepath.Join(root, manifests))
	require.NoError(t, err)
	known := map[string]bool{
		"configmap.yaml": true, "deployment.yaml": true, "sidecar.yaml": true, "statefulset.yaml": true, "service.yaml": true,
		"poddisruptionbudget.yaml": true, "networkpolicy.yaml": true, "hpa.yaml": true, "README.md": true,
	}
	for _, e := range entries {
		require.True(t, known[e.Name()], "%s is not tested", e.Name())
	}
}

// schedulerOf finds the scheduler's container in a pod, and says whether it is a sidecar.
func schedulerOf(t *testing.T, pod corev1.PodSpec) (c corev1.Container, sidecar bool) {
	t.Helper()
	for _, c := range pod.InitContainers {
		if c.Name == "scheduler" {
			require.NotNil(t, c.RestartPolicy)
			require.Equal(t, corev1.ContainerRestartPolicyAlways, *c.RestartPolicy, "an init container without it ends before the service starts")
			return c, true
		}
	}
	for _, c := range pod.Containers {
		if c.Name == "scheduler" {
			return c, false
		}
	}
	require.Fail(t, "no container is named scheduler")
	return c, false
}

// environment is what the container's process finds: the image's and the manifest's.
func environment(t *testing.T, c corev1.Container) []string {
	t.Helper()
	env := imageEnv(t)
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil {
			require.Equal(t, "metadata.name", e.ValueFrom.FieldRef.FieldPath)
			value = "delay-scheduler-0"
		}
		env = append(env, e.Name+"="+value)
	}
	return env
}

func TestPodsFitTheConfiguration(t *testing.T) {
	s := all(t)
	for name, template := range map[string]corev1.PodTemplateSpec{
		"deployment": s.deployment.Spec.Template, "sidecar": s.sidecar.Spec.Template, "statefulset": s.stateful.Spec.Template,
	} {
		t.Run(name, func(t *testing.T) {
			pod := template.Spec
			c, _ := schedulerOf(t, pod)
			e := load(t, s.config.Data["scheduler.yaml"], environment(t, c))

			require.NotNil(t, pod.TerminationGracePeriodSeconds)
			require.Greater(t, time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second, e.drain(t)+leaving)
			requireRoom(t, e, c.Resources.Limits.Memory().Value())
			require.Equal(t, c.Resources.Limits.Memory().Value(), c.Resources.Requests.Memory().Value(), "what is pending stays")
			for _, v := range c.Env {
				require.NotEqual(t, "GOMEMLIMIT", v.Name, "the process works it out of its configuration")
			}
			requireMounted(t, s.config, pod, c)
			require.Len(t, c.Ports, 1)
			require.Equal(t, e.port(t), c.Ports[0].ContainerPort)
		})
	}
}

func requireMounted(t *testing.T, config *corev1.ConfigMap, pod corev1.PodSpec, c corev1.Container) {
	t.Helper()
	require.Equal(t, []string{"run", "-c", "/etc/delay-scheduler/scheduler.yaml"}, c.Args)
	require.Len(t, c.VolumeMounts, 1)
	require.Equal(t, "/etc/delay-scheduler", c.VolumeMounts[0].MountPath)
	require.Len(t, pod.Volumes, 1)
	require.Equal(t, c.VolumeMounts[0].Name, pod.Volumes[0].Name)
	require.Equal(t, config.Name, pod.Volumes[0].ConfigMap.Name)
}

func TestPodsAreHardened(t *testing.T) {
	s := all(t)
	for name, template := range map[string]corev1.PodTemplateSpec{
		"deployment": s.deployment.Spec.Template, "sidecar": s.sidecar.Spec.Template, "statefulset": s.stateful.Spec.Template,
	} {
		t.Run(name, func(t *testing.T) {
			c, sidecar := schedulerOf(t, template.Spec)
			require.NotNil(t, template.Spec.AutomountServiceAccountToken)
			require.False(t, *template.Spec.AutomountServiceAccountToken)
			sc := c.SecurityContext
			require.NotNil(t, sc)
			require.True(t, *sc.ReadOnlyRootFilesystem)
			require.False(t, *sc.AllowPrivilegeEscalation)
			require.Equal(t, []corev1.Capability{"ALL"}, sc.Capabilities.Drop)
			require.Empty(t, sc.Capabilities.Add)
			if !sidecar {
				p := template.Spec.SecurityContext
				sc = &corev1.SecurityContext{RunAsNonRoot: p.RunAsNonRoot, RunAsUser: p.RunAsUser, SeccompProfile: p.SeccompProfile}
			}
			require.True(t, *sc.RunAsNonRoot)
			require.Equal(t, uid(t), strconv.FormatInt(*sc.RunAsUser, 10), "the image's user")
			require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, sc.SeccompProfile.Type)
		})
	}
}

func TestProbesRestartNobodyForABrokerAndTakeNoServiceAway(t *testing.T) {
	s := all(t)
	for name, template := range map[string]corev1.PodTemplateSpec{
		"deployment": s.deployment.Spec.Template, "sidecar": s.sidecar.Spec.Template, "statefulset": s.stateful.Spec.Template,
	} {
		t.Run(name, func(t *testing.T) {
			c, sidecar := schedulerOf(t, template.Spec)
			require.Equal(t, "/livez", c.StartupProbe.HTTPGet.Path)
			require.Equal(t, "/livez", c.LivenessProbe.HTTPGet.Path)
			for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe} {
				require.Equal(t, c.Ports[0].Name, p.HTTPGet.Port.StrVal)
			}
			if sidecar {
				require.Nil(t, c.ReadinessProbe, "it would count for the service's pod")
				return
			}
			require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path, "not strict: degraded is ready")
			require.Equal(t, c.Ports[0].Name, c.ReadinessProbe.HTTPGet.Port.StrVal)
		})
	}
}

func TestOnlyPodsThatKeepTheirNamesAreStaticMembers(t *testing.T) {
	s := all(t)
	c, _ := schedulerOf(t, s.stateful.Spec.Template.Spec)
	e := load(t, s.config.Data["scheduler.yaml"], environment(t, c))
	require.Equal(t, "delay-scheduler-0", e.Group.InstanceID)
	timeout, err := time.ParseDuration(e.Group.SessionTimeout)
	require.NoError(t, err)
	require.Greater(t, timeout, time.Duration(*s.stateful.Spec.Template.Spec.TerminationGracePeriodSeconds)*time.Second, "it has to outlast a restart")
	require.Equal(t, s.service.Name, s.stateful.Spec.ServiceName)
	for _, d := range []*appsv1.Deployment{s.deployment, s.sidecar} {
		c, _ := schedulerOf(t, d.Spec.Template.Spec)
		require.Empty(t, load(t, s.config.Data["scheduler.yaml"], environment(t, c)).Group.InstanceID, d.Name)
	}
}

func TestSelectorsChooseTheSchedulersPods(t *testing.T) {
	s := all(t)
	matches := func(selector *metav1.LabelSelector, template corev1.PodTemplateSpec) bool {
		sel, err := metav1.LabelSelectorAsSelector(selector)
		require.NoError(t, err)
		return sel.Matches(labels.Set(template.Labels))
	}
	require.True(t, matches(s.sidecar.Spec.Selector, s.sidecar.Spec.Template))
	for _, template := range []corev1.PodTemplateSpec{s.deployment.Spec.Template, s.stateful.Spec.Template} {
		require.True(t, matches(s.deployment.Spec.Selector, template))
		require.True(t, matches(s.stateful.Spec.Selector, template))
		require.True(t, matches(s.budget.Spec.Selector, template))
		require.True(t, matches(&s.network.Spec.PodSelector, template))
		require.True(t, labels.SelectorFromSet(s.service.Spec.Selector).Matches(labels.Set(template.Labels)))
		c, _ := schedulerOf(t, template.Spec)
		require.Equal(t, c.Ports[0].Name, s.service.Spec.Ports[0].TargetPort.StrVal)
		require.Equal(t, c.Ports[0].Name, s.network.Spec.Ingress[0].Ports[0].Port.StrVal)
	}
	require.Equal(t, "None", s.service.Spec.ClusterIP)
	require.Equal(t, s.deployment.Name, s.autoscaling.Spec.ScaleTargetRef.Name)
	require.Equal(t, "Deployment", s.autoscaling.Spec.ScaleTargetRef.Kind, "a static member that is scaled away leaves its partitions unread")
}

func TestF49AutoscalerDoesNotLookAtLag(t *testing.T) {
	for _, m := range all(t).autoscaling.Spec.Metrics {
		require.NotContains(t, strings.ToLower(m.External.Metric.Name), "lag")
	}
}
