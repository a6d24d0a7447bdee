package testkafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Access is what a user may do with one resource: exactly one of Topic, Group,
// TransactionalID and Cluster is set.
type Access struct {
	User            string
	Topic           string
	Group           string
	TransactionalID string
	Cluster         bool
	Prefixed        bool // it is about all whose names begin so
	Operation       kadm.ACLOperation
}

// String is for the names of tests.
func (a Access) String() string {
	kind, name, pattern := a.resource()
	return strings.ToLower(fmt.Sprintf("%s %s %s %q (%s)", a.User, a.Operation, kind, name, pattern))
}

// resource is the one that is set.
func (a Access) resource() (kmsg.ACLResourceType, string, kmsg.ACLResourcePatternType) {
	pattern := kmsg.ACLResourcePatternTypeLiteral
	if a.Prefixed {
		pattern = kmsg.ACLResourcePatternTypePrefixed
	}
	switch {
	case a.Topic != "":
		return kmsg.ACLResourceTypeTopic, a.Topic, pattern
	case a.Group != "":
		return kmsg.ACLResourceTypeGroup, a.Group, pattern
	case a.TransactionalID != "":
		return kmsg.ACLResourceTypeTransactionalId, a.TransactionalID, pattern
	}
	return kmsg.ACLResourceTypeCluster, "kafka-cluster", kmsg.ACLResourcePatternTypeLiteral
}

func (a Access) builder() *kadm.ACLBuilder {
	b := kadm.NewACLs().Allow("User:" + a.User).AllowHosts("*").Operations(a.Operation)
	kind, name, pattern := a.resource()
	switch kind {
	case kmsg.ACLResourceTypeTopic:
		b = b.Topics(name)
	case kmsg.ACLResourceTypeGroup:
		b = b.Groups(name)
	case kmsg.ACLResourceTypeTransactionalId:
		b = b.TransactionalIDs(name)
	default:
		b = b.Clusters()
	}
	return b.ResourcePatternType(pattern)
}

// Grant grants accesses, and waits until every node knows. It needs WithACLs.
func (c *Cluster) Grant(accesses ...Access) {
	c.t.Helper()
	for _, access := range accesses {
		c.ask(func(ctx context.Context, a *admin) error {
			made, err := a.CreateACLs(ctx, access.builder())
			for _, acl := range made {
				err = errors.Join(err, acl.Err)
			}
			if err != nil {
				return fmt.Errorf("grant %v: %w", access, err)
			}
			return a.awaitAccess(ctx, access, true)
		})
	}
}

// Revoke takes granted accesses away again, and waits until every node knows.
func (c *Cluster) Revoke(accesses ...Access) {
	c.t.Helper()
	for _, access := range accesses {
		c.ask(func(ctx context.Context, a *admin) error {
			gone, err := a.DeleteACLs(ctx, access.builder())
			for _, result := range gone {
				err = errors.Join(err, result.Err)
			}
			if err != nil {
				return fmt.Errorf("revoke %v: %w", access, err)
			}
			return a.awaitAccess(ctx, access, false)
		})
	}
}

// awaitAccess waits until every node has the access, or has it no more.
func (a *admin) awaitAccess(ctx context.Context, access Access, there bool) error {
	req := kmsg.NewPtrDescribeACLsRequest()
	kind, name, pattern := access.resource()
	req.ResourceType, req.ResourceName, req.ResourcePatternType = kind, &name, pattern
	req.Principal = new("User:" + access.User)
	req.Operation = access.Operation
	req.PermissionType = kmsg.ACLPermissionTypeAllow
	return a.agree(ctx, func(node kmsg.Requestor) error {
		ctx, cancel := context.WithTimeout(ctx, nodePatience)
		defer cancel()
		resp, err := req.RequestWith(ctx, node)
		if err == nil && (len(resp.Resources) > 0) != there {
			err = fmt.Errorf("the node knows %d resources with %v", len(resp.Resources), access)
		}
		return err
	})
}

// scramIterations is the least that brokers take.
const scramIterations = 4096

// SetPassword gives a user a password for both SCRAM mechanisms, a new one included.
func (c *Cluster) SetPassword(user, password string) {
	c.t.Helper()
	c.ask(func(ctx context.Context, a *admin) error { return a.setPassword(ctx, user, password) })
}

func (a *admin) setPassword(ctx context.Context, user, password string) error {
	// One at a time: a broker refuses a request that has a user twice.
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		altered, err := a.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{
			User: user, Mechanism: mechanism, Iterations: scramIterations, Password: password,
		}})
		for _, result := range altered {
			err = errors.Join(err, result.Err)
		}
		if err != nil {
			return fmt.Errorf("set the password of %s: %w", user, err)
		}
	}
	return nil
}

// AccessTool writes Kafka's own kafka-acls.sh into a directory.
func (c *Cluster) AccessTool(dir string) {
	c.t.Helper()
	d := c.own().distribution
	class := "org.apache.kafka.tools.AclCommand"
	if strings.HasPrefix(d.version, "3.") {
		class = "kafka.admin.AclCommand"
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile='%s' -cp '%s/*' %s \"$@\"\n",
		javaPath(), filepath.Join(d.dir, loggingFile), filepath.Join(d.dir, libsDir), class)
	require.NoError(c.t, os.WriteFile(filepath.Join(dir, "kafka-acls.sh"), []byte(script), 0o755))
}

// Authority is who signed the brokers' certificates, and signs those that they take from
// clients. It needs one of the security options.
func (c *Cluster) Authority() *Authority {
	c.t.Helper()
	secrets := c.own().secrets
	require.NotNil(c.t, secrets, "the cluster was started without a security option")
	return secrets.authority
}

// ListenerAddrs are where clients connect to a listener of WithListener.
func (c *Cluster) ListenerAddrs(name string) []string {
	c.t.Helper()
	addrs := c.own().ListenerAddrs(name)
	require.NotEmpty(c.t, addrs, "the cluster was started without the listener %s", name)
	return addrs
}
