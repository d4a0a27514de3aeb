"""What ranks of a test run, and a server that forks them: imports take most of the time of a short job.

The server imports the test files whose functions ranks are to run, without MPI, and keeps them. mpiexec
starts clients of it, ``rank_program.py ADDRESS FILE FUNCTION``. Each passes its environment, its open files
and its connection to mpiexec on to a process that the server forks, the rank, and ends as that ends.
"""

import contextlib
import functools
import gc
import importlib.util
import json
import os
import pickle
import select
import signal
import socket
import sys

# Imported by petamap where it is used, and slowly.
LATE_MODULES = (
    "astropy.io.fits", "astropy.table", "ducc0", "scipy.interpolate", "scipy.ndimage", "scipy.signal",
    "scipy.spatial.transform", "threadpoolctl",
)  # fmt: skip


@functools.cache
def load_file(path):
    """Return the module of a test file."""
    spec = importlib.util.spec_from_file_location("ranks", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_function(path, name):
    """Run ``name(comm)`` of a test file on all ranks of this job, and keep its value if that is asked for."""
    from petacomm.mpi import collective_errors, world

    comm = world()
    with collective_errors(comm):
        value = getattr(load_file(path), name)(comm)
        if folder := os.environ.get("VALUES_OF_RANKS"):
            with open(f"{folder}/{comm.rank}", "wb") as file:
                pickle.dump(value, file)


@contextlib.contextmanager
def rank_server(address, environ):
    """Keep a server at the address, which is the name of a socket."""
    import subprocess

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        command = [sys.executable, __file__, str(listener.fileno())]
        options = {"stdin": subprocess.PIPE, "pass_fds": [listener.fileno()], "start_new_session": True}
        with subprocess.Popen(command, env=environ, **options):  # whose input ends with this process, too
            yield


def serve(listener):
    """Fork a rank for each client; return in the rank what it is to run, and None once the input ends."""
    ranks = {}
    while True:
        processes = [process for process, _ in ranks.values()]
        ready = set(select.select([0, listener, *ranks, *processes], [], [])[0])
        for client in list(ranks):
            if ready & {0, client, ranks[client][0]}:
                end_rank(client, *ranks.pop(client))
        if 0 in ready:
            return None
        if listener in ready:
            client, _ = listener.accept()
            request, files, _, _ = socket.recv_fds(client, 1 << 20, 4)
            folder, environ, *words = json.loads(request)
            with contextlib.suppress(Exception):  # which the rank meets again, and tells
                load_file(words[0])
            gc.freeze()
            pid = os.fork()
            if pid == 0:
                close(listener, client, *ranks, *(process for process, _ in ranks.values()))
                become(folder, environ, files)
                return words
            close(*files)
            ranks[client] = os.pidfd_open(pid), pid


def end_rank(client, process, pid):
    """Tell a client the exit code of its rank, which is killed where mpiexec has killed the client."""
    signal.pidfd_send_signal(process, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        client.send(str(code).encode())
    close(client, process)


def close(*files):
    """Close sockets and numbers of files."""
    for file in files:
        os.close(file if isinstance(file, int) else file.detach())


def become(folder, environ, files):
    """Take the folder, environment and files of a client."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ | {"PMI_FD": str(files[3])})
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    close(*files[:3])


def ask(address, *words):
    """Have the server fork a rank, and end as it ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(address)
        request = json.dumps([os.getcwd(), dict(os.environ), *words]).encode()
        socket.send_fds(server, [request], [0, 1, 2, int(os.environ["PMI_FD"])])
        code = int(server.recv(16) or 1)
    if code < 0:
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    if sys.argv[2:]:
        ask(*sys.argv[1:])
    for late in LATE_MODULES:
        importlib.import_module(late)
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    if asked:
        run_function(*asked)
