"""A Python program on another system than Linux: what Windows lacks is taken away."""

import subprocess
import sys

_MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
_NAMES = {
    "os": "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK fork forkpty geteuid getgid getpgid getpgrp "
    "getuid killpg memfd_create mkfifo pidfd_open pread pwrite register_at_fork "
    "sched_getaffinity sched_setaffinity setsid statvfs sysconf uname waitid",
    "select": "epoll poll",
    "signal": "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPROF SIGSTOP SIGUSR1 SIGXCPU alarm "
    "pthread_sigmask setitimer",
}
_HEAD = f"""
import os, pathlib, select, shutil, signal, subprocess, sys, tempfile, threading, weakref

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {_MODULES}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)

def opened(path, flags, *more, plainly=os.open, **others):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return plainly(path, flags, *more, **others)

def leave(platform):
    for name in {_MODULES}:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Missing())
    for module, names in {_NAMES}.items():
        for name in filter(sys.modules[module].__dict__.__contains__, names.split()):
            delattr(sys.modules[module], name)
    sys.platform = platform
    if platform == "win32":
        os.open, shutil._use_fd_functions = opened, False

"""


def elsewhere(program: str, *arguments: object, after: str = "click", platform: str = "win32"):
    """Run a program and return how it ended.

    after: modules that it imports before anything is missing, as they have builds for each system.
    """
    start = f"import {after}\nleave({platform!r})\n"
    command = [sys.executable, "-c", _HEAD + start + program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def worked(program: str, *arguments: object, **more: str) -> str:
    """Return what a program printed that ended well."""
    done = elsewhere(program, *arguments, **more)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout
