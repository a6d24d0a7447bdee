// Package preflight judges whether a configuration fits a cluster: what is wrong with
// brokers, topics, permissions and the machine (Judge), which topics a business topic
// needs (PlanTopics), and which access the service needs at least (Access).
//
// It takes plain facts that somebody else has gathered and gives findings and plans.
// It never asks a broker, reads a clock or an environment, and never changes anything.
//
// Concurrency: everything is a function of its arguments.
package preflight
