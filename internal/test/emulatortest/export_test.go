package emulatortest

// Keeper returns the process id of the shared emulator's keeper.
func Keeper() int { return used.member.Keeper() }
