"""The jail: how untrusted programs run. Start here.

A pool (`code_verifier.pool`) keeps processes, each started fresh with its own environment; `wire`
has the format of requests and replies. Below are the layers, in the order in which a program meets
them: what each stops, its file, and the file of its tests. docs/threat-model.md has every claim,
and what is not stopped.

1. A process for reading: no text breaks or delays the caller or a program. `reader`; test_walls.
2. Policy: stops nothing. It refuses early, with a reason, and finds programs that can reach
   entropy, clocks or the order of sets and need more executions. `policy`, `chance`; test_corpus,
   test_walls.
3. A fresh child for each execution: nothing of another program. `server`; test_corpus, test_faults.
4. Modules imported before the fork: none beyond the list. `imports`; test_corpus.
5. Clocks, entropy, hash seeds and addresses differ in each execution: no output depends on the
   time, the process or the build. A program that sees an address is noticed, and executed more
   often. `clocks`, `entropy`, `addresses` with the source `addresses.S`; test_clocks,
   test_addresses, test_walls.
6. Another user, namespaces, an empty root and Landlock: no files, network and signals, even if the
   filter has a hole. `walls`; test_layers.
7. Limits of memory, processor time, files and processes, and of real time by the server: no waste
   of the machine. `server`, `walls`; test_sandbox, test_corpus.
8. The filter of system calls: a program can only compute; no file, socket, process, clock or
   descriptor. `syscalls`; test_seccomp, test_layers.
9. A report made without the program's methods: no value poses as another. `literal_child`;
   test_literals.
10. Comparison outside: no program judges itself. `code_verifier.sandbox`; test_walls.

What each process holds. The reader holds texts, and executes none. A server holds orders, but no
program. A child holds its program, no descriptor (a script: its streams), and nothing that its
output is compared with, unless a test looks at more than data (`in_process`). An attacker who
controls a child can only report what the program could have returned.

Ordinary programs (`ordinary_child`, `memory_files`) meet the same walls. They may use threads,
clocks and most of the standard library; a refused system call fails, and does not kill.
"""
