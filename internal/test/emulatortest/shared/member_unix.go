//go:build unix

package shared

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/emulator"
)

// A Member is a test binary's membership, from [Join] until the process ends. Its methods may be
// called from any goroutine.
type Member struct {
	host  *rpc.Client
	hello Hello
}

// Join returns a membership in the shared emulator, which it starts if need be. It fails where an
// emulator cannot start, and where this package's files cannot be written.
func Join(ctx context.Context) (*Member, error) {
	return join(ctx, os.TempDir(), time.Minute)
}

// join is Join in a folder, with a host that lingers for a time.
func join(ctx context.Context, folder string, linger time.Duration) (*Member, error) {
	name, err := nameOf(ctx)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(folder, name)
	locked, err := lock(socket, syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer locked.Close() // this unlocks it

	m, err := dial(socket, answerTimeout)
	if err == nil {
		return m, nil
	}
	err = startHost(socket, linger)
	if err != nil {
		return nil, err
	}
	return dial(socket, answerTimeout)
}

// Addr returns the emulator's host:port.
func (m *Member) Addr() string { return m.hello.Addr }

// Host returns the process id of the host, with which the emulator ends.
func (m *Member) Host() int { return m.hello.Host }

// Want has the events of a project posted to a URL, at the path to which the emulator posts them.
func (m *Member) Want(project, url string) error {
	return m.host.Call("Host.Want", Wanted{project, url}, new(struct{}))
}

// Check returns an error if the emulator has ended.
func (m *Member) Check() error {
	err := m.host.Call("Host.Hello", false, new(Hello))
	if err != nil {
		return errors.New("the shared emulator has ended")
	}
	return nil
}

// leave ends the membership before the process ends.
func (m *Member) leave() error { return m.host.Close() }

// answerTimeout is how long a host may take to answer on a busy machine.
const answerTimeout = time.Minute

// nameOf returns the name of the socket.
func nameOf(ctx context.Context) (string, error) {
	jar, javas, err := emulator.Programs(ctx)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(jar)
	if err != nil {
		return "", err
	}

	hash := sha256.New()
	fmt.Fprintf(hash, "%d\n%s\n%v\n%q\n", os.Getuid(), jar, info.ModTime().UnixNano(), javas)
	files, err := fs.Glob(source, "*")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := fs.ReadFile(source, file)
		if err != nil {
			return "", err
		}
		hash.Write(text)
	}
	return fmt.Sprintf("tally-tests-%x", hash.Sum(nil)[:8]), nil
}

// lock locks the lock of a socket. Closing it unlocks it; so does the end of the process.
func lock(socket string, how int) (*os.File, error) {
	file, err := os.OpenFile(socket+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}

	err = syscall.Flock(int(file.Fd()), how)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return file, nil
}

// dial joins the host that listens at a socket. A host that does not answer in time, because
// somebody stopped it, is as good as none.
func dial(socket string, patience time.Duration) (*Member, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	err = conn.SetDeadline(time.Now().Add(patience))
	if err != nil {
		return nil, err
	}

	m := &Member{host: rpc.NewClient(conn)}
	err = m.host.Call("Host.Hello", true, &m.hello)
	if err != nil {
		m.host.Close()
		return nil, err
	}
	return m, conn.SetDeadline(time.Time{})
}

// startHost starts a host, and returns when it listens at the socket.
func startHost(socket string, linger time.Duration) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(socket+".log", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	says, said, err := os.Pipe()
	if err != nil {
		return err
	}
	defer says.Close()

	cmd := exec.Command(executable)
	cmd.Dir = filepath.Dir(socket)
	cmd.Env = append(os.Environ(), hostVariable+"="+socket, lingerVariable+"="+linger.String())
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{said}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	said.Close()
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // its log says why it ended

	answer, err := io.ReadAll(says)
	if err != nil || string(answer) != ready {
		return fmt.Errorf("start the shared emulator: %s (%s)", answer, log.Name())
	}
	return nil
}
