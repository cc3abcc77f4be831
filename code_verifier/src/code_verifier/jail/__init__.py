"""What runs on the far side: the fork server and the child that executes one program.

These modules are imported by a bare interpreter of their own, never by the caller's process
(except their tables), and use the standard library only.
"""
