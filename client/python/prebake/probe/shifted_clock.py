"""A clock that is ahead, for all code of a process: Python's, NumPy's, a database's.

Programs ask for the time by functions that the kernel puts into each process (vdso(7)). These are rewritten
here to ask the kernel itself, and to add to its answer: whoever looked up where they are is told that too.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Iterator

#: Of an ELF file of 64 bits (elf(5)): the program header of its dynamic section, and entries of that.
_DYNAMIC, _STRINGS, _SYMBOLS = 2, 5, 6
_READ_WRITE_EXECUTE, _READ_EXECUTE = 7, 5


def shift(seconds: int) -> bool:
    """Sets the clock ahead by so many seconds (below 2**31); whether that could be done. Clocks that tell no
    time of day stay what they are."""
    if platform.machine() != "x86_64" or struct.calcsize("P") != 8:
        return False
    try:
        return _rewrite(_codes(struct.pack("<i", seconds)))
    except (OSError, ValueError, LookupError, struct.error):
        return False


def _codes(seconds: bytes) -> dict[bytes, bytes]:
    """The machine code of each function, after the System V calling convention of AMD64."""
    clock_gettime = (
        b"\xb8\xe4\x00\x00\x00\x0f\x05"  # mov eax, 228; syscall
        b"\x85\xc0\x75\x12"  # test eax, eax; jnz out
        b"\x85\xff\x74\x07"  # test edi, edi; jz ahead (CLOCK_REALTIME)
        b"\x83\xff\x05\x75\x09"  # cmp edi, 5; jne out (CLOCK_REALTIME_COARSE)
        b"\x90\x90"  # nop; nop
        b"\x48\x81\x06" + seconds + b"\xc3"  # ahead: add qword [rsi], seconds; out: ret
    )
    gettimeofday = (
        b"\xb8\x60\x00\x00\x00\x0f\x05"  # mov eax, 96; syscall
        b"\x48\x85\xff\x74\x07"  # test rdi, rdi; jz out
        b"\x48\x81\x07" + seconds + b"\xc3"  # add qword [rdi], seconds; out: ret
    )
    time = (
        b"\xb8\xc9\x00\x00\x00\x0f\x05"  # mov eax, 201; syscall
        b"\x48\x05"
        + seconds  # add rax, seconds
        + b"\x48\x85\xff\x74\x03"  # test rdi, rdi; jz out
        b"\x48\x89\x07\xc3"  # mov [rdi], rax; out: ret
    )
    return {b"clock_gettime": clock_gettime, b"gettimeofday": gettimeofday, b"time": time}


def _rewrite(codes: dict[bytes, bytes]) -> bool:
    """Puts code in the place of functions; all of them, or none."""
    begin, end = _mapped()
    image = ctypes.string_at(begin, end - begin)
    found = ((name.removeprefix(b"__vdso_"), place) for name, place in _functions(image))
    places = {name: place for name, place in found if name in codes}
    if any(size < len(codes[name]) for name, (_, size) in places.items()) or places.keys() != codes.keys():
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    # The pages are this process's own from the first write on.
    if libc.mprotect(begin, end - begin, _READ_WRITE_EXECUTE):
        return False
    for name, (at, _) in places.items():
        ctypes.memmove(begin + at, codes[name], len(codes[name]))
    libc.mprotect(begin, end - begin, _READ_EXECUTE)
    return True


def _mapped() -> tuple[int, int]:
    """Where the kernel's functions are."""
    with open("/proc/self/maps") as maps:
        place = next((line for line in maps if line.endswith("[vdso]\n")), None)
    if place is None:
        raise ValueError("the kernel puts no functions into processes")
    begin, _, end = place.split()[0].partition("-")
    return int(begin, 16), int(end, 16)


def _functions(image: bytes) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """The functions of an ELF image by name: where each begins, and how long it is."""
    (headers,), (size, count) = struct.unpack_from("<Q", image, 32), struct.unpack_from("<HH", image, 54)
    dynamic = {}
    for i in range(count):
        kind, _, _, at, _, length = struct.unpack_from("<IIQQQQ", image, headers + i * size)
        if kind == _DYNAMIC:
            dynamic = dict(struct.iter_unpack("<qQ", image[at : at + length // 16 * 16]))
    strings, symbols = dynamic[_STRINGS], dynamic[_SYMBOLS]
    # How many there are is told by a hash table alone; their names lie behind the last.
    for name, _, _, _, at, length in struct.iter_unpack(
        "<IBBHQQ", image[symbols : symbols + (strings - symbols) // 24 * 24]
    ):
        yield image[strings + name : image.index(b"\0", strings + name)], (at, length)
