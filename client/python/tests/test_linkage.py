"""That opens of compiled code are heard must not be felt: by libraries with functions of the same names, by
handlers of signals, by forked processes, and by who asks for `errno`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Ten times what a program takes.
SECONDS_MAX = 120

OWN = """
int glob(const char *text, int more) { int n = 0; while (text[n]) n++; return n + more; }
"""
ASKS = """
int glob(const char *, int);
int asks(void) { return glob("abc", 4); }
"""
ASKED = """
# It looks in its own libraries first.
asked = ctypes.CDLL("./libasks.so", mode=os.RTLD_DEEPBIND | os.RTLD_NOW).asks
with Recorder():
    print(asked())
"""

HANDLER = """
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>
static void opens(int signal) { int file = open("a.txt", O_RDONLY); if (file >= 0) close(file); }
int run(void) {
    struct sigaction action = {0};
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0}};
    action.sa_handler = opens;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    for (long i = 0; i < 5000000; i++) {
        void *one = malloc(2000 + i % 3000), *other = malloc(1100 + i * 7 % 9000);
        free(one);
        free(other);
    }
    setitimer(ITIMER_REAL, &never, 0);
    return 7;
}
"""
HANDLED = """
import threading, time
# Of one thread alone the allocator is not locked.
threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
run = ctypes.CDLL("./libopens.so").run
with Recorder() as record:
    print(run())
"""

THREADS = """
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static void *opens(void *none) {
    for (;;) { int file = open("a.txt", O_RDONLY); if (file >= 0) close(file); }
    return none;
}
int begin(void) {
    pthread_t thread;
    for (int i = 0; i < 4; i++) pthread_create(&thread, 0, opens, 0);
    return 0;
}
"""
FORKED = """
import os, signal
begin = ctypes.CDLL("./libopens.so").begin
with Recorder():
    begin()
    for _ in range(100):
        child = os.fork()
        if not child:
            signal.alarm(20)
            with Recorder():
                pass
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
print(7, flush=True)
os._exit(0)
"""

ERRNO = """
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
int keeps(void) {
    errno = 3;
    int file = open("a.txt", O_RDONLY | O_CREAT, 0600);
    close(file);
    return errno + 4;
}
"""
KEPT = """
os.remove("a.txt")
keeps = ctypes.CDLL("./libopens.so").keeps
with Recorder():
    print(keeps())
"""

DATA = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
static FILE *(*openers[])(const char *, const char *) = {fopen};
int reads(int which) { FILE *file = openers[which]("a.txt", "r"); fclose(file); return 6; }
int fails(void) { return open("a.txt", O_RDWR | O_CREAT | O_EXCL, 0600) + open("a.txt", O_RDONLY) * 0 + 1; }
"""
HEARD = """
library = ctypes.CDLL("./libopens.so")
with Recorder() as by_data:
    more = library.reads(0)
with Recorder() as kept:
    library.fails()
print(more + (list(by_data.stats) == list(kept.stats) == [os.path.abspath("a.txt")] and not kept.effects()))
"""

PROGRAMS = {
    "a table of functions, and a file that is there already": ([("opens", DATA)], HEARD),
    "a library with a function of that name": ([("own", OWN), ("asks", ASKS)], ASKED),
    "a handler of a signal": ([("opens", HANDLER)], HANDLED),
    "forked while others open": ([("opens", THREADS)], FORKED),
    "who asks for the error": ([("opens", ERRNO)], KEPT),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_that_opens_are_heard_is_not_felt(name: str, tmp_path: Path) -> None:
    libraries, program = PROGRAMS[name]
    (tmp_path / "a.txt").write_text("1")
    for i, (library, source) in enumerate(libraries):
        (tmp_path / f"{library}.c").write_text(source)
        needs = [f"./lib{each}.so" for each, _ in libraries[:i]]
        command = ["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", f"{library}.c", *needs]
        subprocess.run([*command, "-o", f"lib{library}.so"], cwd=tmp_path, check=True, timeout=SECONDS_MAX)
    (tmp_path / "main.py").write_text(
        f"import ctypes, os\nfrom prebake.reads.recorder import Recorder\nwith Recorder(): pass\n{program}"
    )
    ran = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert (ran.returncode, ran.stdout) == (0, "7\n"), ran.stderr
