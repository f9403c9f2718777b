# As a server, with the root of the Cloud SDK as its argument, it loads gcloud once and runs each
# command in a fork, until standard input ends. It waits at most 10 ms at a time. Otherwise, called as
# gcloud is, it hands its arguments, folder, environment and files over to the server.
import json, os, select, signal, socket, sys, threading, time, traceback

address = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), 'socket')


def call():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(address)
        socket.send_fds(s, [b'.'], [0, 1, 2])
        s.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode() + b'\n')
        sys.exit(int(s.makefile().read() or 70))


def serve(root):
    sys.path[:0] = [root + '/lib', root + '/lib/third_party']
    from googlecloudsdk import gcloud_main
    cli = gcloud_main.CreateCLI([])
    sleep = time.sleep
    time.sleep = lambda seconds: sleep(min(seconds, 0.01))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(address)
        s.listen()
        print('ready', flush=True)
        while sys.stdin not in select.select([s, sys.stdin], [], [])[0]:
            caller, _ = s.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                run(cli, caller)
            caller.close()


def run(cli, caller):
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
    status = 1
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
        caller.sendall(str(status).encode())
        os._exit(0)


serve(sys.argv[2]) if sys.argv[1:2] == ['serve'] else call()
