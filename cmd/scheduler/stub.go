package main

import "github.com/spf13/cobra"

func newSend() *cobra.Command    { return &cobra.Command{Use: "send"} }
func newExplain() *cobra.Command { return &cobra.Command{Use: "explain"} }
func newOffsets() *cobra.Command { return &cobra.Command{Use: "offsets"} }
