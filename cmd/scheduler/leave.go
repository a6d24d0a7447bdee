package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"delay-scheduler/app"
)

func newLeave() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "leave",
		Short: "Removes a static member that was stopped for good",
		Long: `Removes the member with this group.instance_id from the group. A static member keeps its
partitions for group.session_timeout after it has stopped, so that a restart finds them; one that
does not come back leaves them unread for so long, unless it is removed.

Removing a member that still runs makes it end with an error: its partitions go to the others.`,
		Example: `  scheduler leave -c scheduler.yaml --instance-id delay-scheduler-2
  scheduler leave --brokers kafka-1:9092 --group orders-scheduler --instance-id pod-7 --yes`,
		Args: usageArgs(cobra.NoArgs),
	}
	s := clusterFlags(c, [3]string{"group", "group.id", "consumer group"}, [3]string{"instance-id", "group.instance_id", "the member to remove"})
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, _ []string) error {
		loaded, err := s.load()
		if err != nil {
			return err
		}
		instance := loaded.Group.InstanceID
		if instance == "" {
			return usageError{errors.New("which member? name it with --instance-id, or in the configuration (group.instance_id)")}
		}
		if !yes {
			if err := confirm(c, fmt.Sprintf("Remove member %s from group %s?", instance, loaded.Group.ID)); err != nil {
				return err
			}
		}
		ctx, _, release := signals(c.Context())
		defer release()
		if err := app.Leave(ctx, loaded, instance); err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "member %s is removed from group %s\n", instance, loaded.Group.ID)
		return err
	}
	return c
}
