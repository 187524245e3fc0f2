# SPDX-License-Identifier: Apache-2.0
"""The page through which failing.c is directed: the structure of failing.h."""
import ctypes
import enum
import mmap
import os


class Kind(enum.IntFlag):
    MEMORY = 1
    ACCEPT = 2
    RECEIVE = 4
    SEND = 8
    READ = 16
    WRITE = 32
    OPEN = 64
    THREAD = 128
    EPOLL = 256
    POLL = 512
    SOCKET = 1024


SHORT = -1  # in place of an errno: one byte is moved
FRAMES, FRAME_SIZE = 24, 64


class Structure(ctypes.Structure):
    _fields_ = [("counted", ctypes.c_uint64), ("failed", ctypes.c_uint64),
                ("live", ctypes.c_int64), ("first", ctypes.c_uint64), ("error", ctypes.c_int32),
                ("persists", ctypes.c_uint32), ("kinds", ctypes.c_uint32),
                ("frames", ctypes.c_uint32), ("frame", ctypes.c_char * FRAME_SIZE * FRAMES)]


class Page:
    def __init__(self, path):
        self.path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(descriptor, mmap.PAGESIZE)
        self.memory = mmap.mmap(descriptor, mmap.PAGESIZE)
        os.close(descriptor)
        self.shared = Structure.from_buffer(self.memory)

    def variables(self, library):
        """What a process needs to have in its environment; its program is attentiond."""
        return {"LD_PRELOAD": str(library), "FAILING_PAGE": str(self.path),
                "FAILING_PROGRAM": "attentiond"}

    def arm(self, kinds, error, first, persists=False):
        """From here on the `first`-th call of these kinds fails, and those after it if `persists`.
        0 counts them only."""
        self.disarm()
        shared = self.shared
        shared.counted = shared.failed = shared.frames = 0
        shared.first, shared.error, shared.persists = first, error, persists
        shared.kinds = kinds

    def disarm(self):
        self.shared.kinds = 0

    @property
    def counted(self):
        return self.shared.counted

    @property
    def failed(self):
        return self.shared.failed

    @property
    def live(self):
        return self.shared.live

    def frames(self):
        """Where the first call failed, innermost first."""
        return [self.shared.frame[i].value.decode() for i in range(self.shared.frames)]
