// Package cases holds a test for each failure that users of this and other systems
// have reported, named after its id. Each runs the product as anybody would, as a
// process with a configuration file, on a real broker; where a case does not depend on
// a broker it is tested where its logic is, and named there.
package cases
