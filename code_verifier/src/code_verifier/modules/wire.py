"""The head of a fork server's reply: how a child ended, by numbers.

ending, the call that ran (from 1 on), processor seconds, bytes of the reason that follows.
"""

import struct

HEAD = struct.Struct("<BIdH")
ENDINGS = ("left", "cpu", "total", "idle", "memory", "flood", "raised", "crash", "fault")
