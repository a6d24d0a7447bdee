// Package credential reads passwords, tokens, certificates and authorities from files,
// and reads them again whenever they are asked for, so that what is renewed on disk is in
// use without a restart.
//
// It never prints what it reads: its errors name files and what is wrong with them. It
// starts no goroutine and watches nothing; a value may be asked for by any of them.
package credential
