"""`check` and `grade` in five lines: install code_verifier (README.md), then run this file."""

from code_verifier import Sandbox, Task

with Sandbox(workers=2) as sandbox:
    print(sandbox.check("def f(x):\n    return sorted(x)", "[3, 1, 2]").output)  # [1, 2, 3]
    print(sandbox.check("import random\ndef f():\n    return random.random()", "").status)
    task = Task("code_i", "def f(x):\n    return x * x", output="9")
    print(sandbox.grade(task, "-3").score, sandbox.grade(task, "4").score)  # 1.0 0.0
