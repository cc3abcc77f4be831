"""The system-call filters, interpreted here on made-up calls: what they allow, fail and kill."""

import errno
import struct

import pytest

from code_verifier.jail.syscalls import TABLES, build

KILL, FAIL, ALLOW = 0x80000000, 0x00050000 | errno.EPERM, 0x7FFF0000
X86, ARM = 0xC000003E, 0xC00000B7
I386, OLD_ARM, RISCV = 0x40000003, 0x40000028, 0xC00000F3
ARCHES = {"x86_64": X86, "aarch64": ARM}
FILE, EXECUTABLE = 1 << 32, 4


def numbers(text):
    """System-call numbers by name, from a text of both in turn."""
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


# By hand from the kernel's headers: x86/entry/syscalls/syscall_64.tbl and asm-generic/unistd.h.
ALLOWED = {
    "x86_64": numbers(
        """
        munmap 11 brk 12 rt_sigprocmask 14 rt_sigreturn 15 sched_yield 24 mremap 25 madvise 28
        nanosleep 35 exit 60 futex 202 clock_nanosleep 230 exit_group 231 getrandom 318
        """
    ),
    "aarch64": numbers(
        """
        munmap 215 brk 214 rt_sigprocmask 135 rt_sigreturn 139 sched_yield 124 mremap 216
        madvise 233 nanosleep 101 exit 93 futex 98 clock_nanosleep 115 exit_group 94 getrandom
        278
        """
    ),
}
REFUSED = {
    "x86_64": numbers(
        """
        close 3 fstat 5 poll 7 lseek 8 ioctl 16 fcntl 72 rt_sigaction 13 sigaltstack 131
        gettimeofday 96 time 201 clock_gettime 228 clock_getres 229
        """
    ),
    "aarch64": numbers(
        """
        close 57 fstat 80 ppoll 73 lseek 62 ioctl 29 fcntl 25 rt_sigaction 134 sigaltstack 132
        gettimeofday 169 clock_gettime 113 clock_getres 114
        """
    ),
}
READ, WRITE = {"x86_64": 0, "aarch64": 63}, {"x86_64": 1, "aarch64": 64}
MAPPING = {"x86_64": {"mmap": 9, "mprotect": 10}, "aarch64": {"mmap": 222, "mprotect": 226}}


def decide(program, arch, number, *args):
    """What a filter answers: an interpreter of the part of classic BPF that filters may use."""
    six = (*args, *(0,) * (6 - len(args)))
    data = struct.pack("<iIQ6Q", number - (1 << 32) * (number >> 31), arch, 0, *six)
    lines = list(struct.iter_unpack("<HBBI", program))
    accumulator, at = 0, 0
    while True:
        code, yes, no, value = lines[at]
        at += 1
        if code == 0x20:  # LD W ABS
            assert value % 4 == 0
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x15:  # JEQ
            at += yes if accumulator == value else no
        elif code == 0x35:  # JGE
            at += yes if accumulator >= value else no
        elif code == 0x45:  # JSET
            at += yes if accumulator & value else no
        elif code == 0x05:  # JA
            at += value
        elif code == 0x06:  # RET
            return int(value)
        else:
            raise AssertionError(f"an instruction that the kernel would refuse: {code:#x}")


def built(machine, write_fd=None, read_fd=None):
    program = build(write_fd, read_fd, machine=machine)
    assert len(program) % 8 == 0
    assert len(program) // 8 <= 4096  # BPF_MAXINSNS
    return program


machines = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])


@machines
@pytest.mark.parametrize("descriptors", [(None, None), (1, 0)], ids=["child", "reader"])
def test_every_number_gets_what_the_table_says(machine, descriptors):
    program = built(machine, *descriptors)
    allowed = set(ALLOWED[machine].values()) | set(MAPPING[machine].values())
    refused = set(REFUSED[machine].values()) | {READ[machine], WRITE[machine]}
    for number in [*range(2048), 5000, 0x3FFFFFFF]:
        expected = ALLOW if number in allowed else FAIL if number in refused else KILL
        assert decide(program, ARCHES[machine], number, 3) == expected, number


@machines
def test_other_architectures_are_killed(machine):
    program = built(machine)
    for arch in {X86, ARM, I386, OLD_ARM, RISCV, 0} - {ARCHES[machine]}:
        for number in range(512):
            assert decide(program, arch, number, 3) == KILL


def test_the_x32_numbers_are_killed():
    program = built("x86_64")
    for number in range(1024):
        assert decide(program, X86, 0x40000000 | number, 3) == KILL
    for number in (-1, -1024, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1):
        assert decide(program, X86, number % (1 << 32), 3) == KILL


@machines
@pytest.mark.parametrize("descriptors", [(None, None), (1, 0)], ids=["child", "reader"])
def test_a_process_writes_and_reads_its_own_descriptors_only(machine, descriptors):
    program, arch = built(machine, *descriptors), ARCHES[machine]
    for call, own in zip((WRITE, READ), descriptors, strict=True):
        for fd in (0, 1, 2, 3, 4, 15, 255, 2**31, 2**32 - 1, FILE, FILE | 1, FILE | 3, 3 << 32):
            assert decide(program, arch, call[machine], fd) == (ALLOW if fd == own else FAIL), fd
        assert decide(program, arch, call[machine], 2**64 - 1) == FAIL
    for number in ALLOWED[machine].values():
        assert decide(program, arch, number) == ALLOW


@machines
@pytest.mark.parametrize("call", ["mmap", "mprotect"])
def test_no_memory_becomes_executable(machine, call):
    program, arch, number = built(machine), ARCHES[machine], MAPPING[machine][call]
    for protection in range(16):
        expected = FAIL if protection & EXECUTABLE else ALLOW
        assert decide(program, arch, number, 0, 4096, protection) == expected
        high = protection | 0xFFFF << 40  # the kernel looks at the low bits
        assert decide(program, arch, number, 0, 4096, high) == expected


def test_other_machines_get_no_filter():
    assert build(machine="riscv64") is None
    assert set(TABLES) == {"x86_64", "aarch64"}


@machines
def test_an_ordinary_program_names_no_owner_of_a_descriptor(machine):
    program = build(machine=machine, mild=True)
    number = REFUSED[machine]["fcntl"]
    for command in (*range(40), 1024, 1030, 2**31, 2**32 - 1):
        expected = ALLOW if command <= 4 else FAIL  # F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL
        for high in (0, 1 << 32):
            assert decide(program, ARCHES[machine], number, 3, command | high) == expected
