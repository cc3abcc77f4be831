"""The jail: how programs of unknown origin run. This is its first page.

A pool (`code_verifier.pool`) keeps processes, each started fresh with an environment of its own;
`wire` has what they are asked and what comes back. The layers, in the order in which a program
meets them: what each stops, its file, and the file of its tests. docs/threat-model.md has the
claims one by one, and what is not stopped.

1. Reading apart: no text breaks or delays the caller or a program. `reader`; test_walls.
2. Policy: stops nothing. It refuses early, with a reason, and finds out which programs can reach
   chance and so deserve more executions. `policy`, `chance`; test_corpus, test_walls.
3. A fresh child for each execution: nothing of another program. `server`; test_corpus, test_faults.
4. Modules from before the fork: none beyond the list. `imports`; test_corpus.
5. Clocks, entropy, hash seeds and addresses of each execution's own: no output that depends on the
   moment, the process or the build. `clocks`, `entropy`, `addresses`; test_clocks, test_walls.
6. A user, namespaces, an empty root and Landlock: no files, network and signals, should the filter
   have a hole. `walls`; test_layers.
7. Limits of memory, processor time, files and processes, and of real time by the server: no greed.
   `server`, `walls`; test_sandbox, test_corpus.
8. The filter of system calls: computing alone; no file, socket, process, clock or descriptor.
   `syscalls`; test_seccomp, test_layers.
9. A report without the program's methods: no value poses as another. `child`; test_literals.
10. Comparison outside: no program has a word in its outcome. `code_verifier.sandbox`; test_walls.

Who holds what. The reader holds texts, and executes none. A server holds orders, and no program. A
child holds its program, no descriptor (a script: its streams), and nothing that its output is
compared with, unless a test looks at more than data (`tests`). Whoever takes a child over gains
what the program could have returned.

Ordinary programs (`ordinary`, `memory_files`) meet the same walls. They may have threads, clocks
and most of the standard library; what the kernel refuses them fails, and does not kill.
"""
