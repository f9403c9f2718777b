# As a server, with the root of the Cloud SDK as its argument, this loads gcloud once and runs each
# command in a fork, until standard input ends. It waits at most 10 ms at a time. A fork tells which
# modules its command imported; the server then imports them for the next forks, because that is
# most of what a command does. Otherwise, called as gcloud is, this hands its arguments, folder,
# environment and files over to the server.
import json, os, socket, sys  # and nothing that only the server needs: a call starts Python anew

address = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), 'socket')


def call():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(address)
        socket.send_fds(s, [b'.'], [0, 1, 2])
        s.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode() + b'\n')
        sys.exit(int(s.makefile().read() or 70))


def serve(root):
    import select, shutil, signal, time
    sys.path[:0] = [root + '/lib', root + '/lib/third_party']
    from googlecloudsdk import gcloud_main
    cli = gcloud_main.CreateCLI([])
    sleep = time.sleep
    time.sleep = lambda seconds: sleep(min(seconds, 0.01))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    imported, tell = os.pipe()
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(address)
        s.listen()
        print('ready', flush=True)
        while sys.stdin not in (ready := select.select([imported, s, sys.stdin], [], [])[0]):
            if imported in ready:
                learn(os.read(imported, 1 << 16).decode().split())
                continue
            caller, _ = s.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                run(cli, caller, tell)
            caller.close()
    shutil.rmtree(os.path.dirname(address))


def learn(names):
    import importlib
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # the command that needs it imports it
            pass


def run(cli, caller, tell):
    import threading, traceback
    _, files, _, _ = socket.recv_fds(caller, 1, 3)
    for i, f in enumerate(files):
        os.dup2(f, i)
        os.close(f)
    args, folder, environment = json.loads(caller.makefile().readline())
    # A caller that is killed takes the command along.
    threading.Thread(target=lambda: caller.recv(1) or os._exit(1), daemon=True).start()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    status, known = 1, set(sys.modules)
    try:
        cli.Execute(args)
        status = 0
    except SystemExit as e:
        status = e.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for name in set(sys.modules) - known:
            os.write(tell, name.encode() + b'\n')
        caller.sendall(str(status).encode())
        os._exit(0)


serve(sys.argv[2]) if sys.argv[1:2] == ['serve'] else call()
