package emulatortest

// Host returns the process id of the shared emulator's host.
func Host() int { return used.member.Host() }
