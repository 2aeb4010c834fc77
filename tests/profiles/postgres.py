"""A PostgreSQL server for tests, in a temporary directory."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

_HOME = Path("/usr/lib/postgresql")


def missing() -> str | None:
    """Why no server can run here."""
    if _program("initdb") is None or _program("pg_ctl") is None:
        return "PostgreSQL is not installed: no initdb on the path or in /usr/lib/postgresql"
    if os.geteuid() == 0 and _user() is None:
        return "PostgreSQL does not run as root, and there is no user called postgres"
    return None


class Cluster:
    """A server that runs until it is closed; `restart` crashes it and starts another one on the same data."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="wakeful-postgres-"))
        self.port = _free_port()
        if (user := _user()) is not None and os.geteuid() == 0:
            os.chown(self.directory, user.pw_uid, user.pw_gid)
        self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync")
        self._start()

    @property
    def address(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def restart(self) -> None:
        self._run("pg_ctl", "stop", "--mode=immediate", "--wait")
        self._start()

    def close(self) -> None:
        self._run("pg_ctl", "stop", "--mode=immediate", "--wait")
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        log = str(self.directory / "server.log")
        self._run("pg_ctl", "start", "--wait", "--timeout=60", f"--options={options}", f"--log={log}")

    def _run(self, program: str, *arguments: str) -> None:
        # PostgreSQL does not run as root: then it runs as the user that owns the data.
        user = "postgres" if os.geteuid() == 0 else None
        command = [_program(program) or program, *arguments, "-D", str(self.directory / "data")]
        subprocess.run(
            command,
            check=True,
            user=user,
            group=user,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=120,
        )


def _program(name: str) -> str | None:
    installed = sorted(_HOME.glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(installed[-1]) if installed else None)


def _user() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
