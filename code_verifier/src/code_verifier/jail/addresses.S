/* The machine code of addresses.py, which holds the same bytes; test_addresses.py compares them:

       as [--defsym AARCH64=1] --defsym SEEN=1 --defsym FACTOR=2 ... addresses.S

   Words of capitals are numbers of 64 bits that addresses.py fills in for each execution:

       SEEN      address of a byte, set to 1 when the program has seen an address
       FACTOR    odd, another one for each execution
       TOP       7 << 44, so that all addresses have as many digits as real ones
       OLD       the interpreter's own hash function of the type
       NONE      the hash of None before Python 3.12, another one for each execution
       INTEGER   PyLong_FromVoidPtr
       FORMAT    "%#lx"
       PRINT     fprintf

   Each routine begins at a multiple of 16, with zeros before, and with the instruction that marks
   targets of indirect jumps (endbr64, bti). The routines that end in a jump leave the caller's
   return address, so that the function that they jump to returns to the caller.

   mix(x) is (y = x * FACTOR % 2**44, y ^ y >> 22 | TOP). It is one to one for numbers below 2**44,
   because FACTOR is odd and the second step undoes itself; an address without its last four bits
   has 43. */

        .text
.ifndef AARCH64                         /* x86-64, System V: arguments in rdi, rsi, rdx */

.macro  MARK                            /* *SEEN = 1 */
        movabs  $SEEN, %r11
        movb    $1, (%r11)
.endm

.macro  MIX                             /* rdx = mix(rdx); changes rax */
        movabs  $FACTOR, %rax
        imul    %rax, %rdx
        shl     $20, %rdx               /* % 2**44 */
        shr     $20, %rdx
        mov     %rdx, %rax
        shr     $22, %rax
        xor     %rax, %rdx
        movabs  $TOP, %rax
        or      %rax, %rdx
.endm

hash:                                   /* tp_hash(object): mix(OLD(object)) >> 4, which is */
        endbr64                         /* id(object) >> 4 of an object without a hash function */
        sub     $8, %rsp                /* a call needs a stack of multiples of 16 */
        movabs  $OLD, %rax
        call    *%rax
        add     $8, %rsp
        mov     %rax, %rdx
        MIX
        mov     %rdx, %rax
        shr     $4, %rax
        ret
        .balign 16, 0

none:                                   /* tp_hash(None): NONE */
        endbr64
        movabs  $NONE, %rax
        ret
        .balign 16, 0

id:                                     /* builtins.id(module, object): */
        endbr64                         /* INTEGER(mix(object >> 4)) */
        MARK
        mov     %rsi, %rdx
        shr     $4, %rdx                /* no two objects begin in the same 16 bytes */
        MIX
        mov     %rdx, %rdi
        movabs  $INTEGER, %rax
        jmp     *%rax
        .balign 16, 0

text:                                   /* printf's %p(stream, info, arguments): */
        endbr64                         /* PRINT(stream, FORMAT, mix(**arguments >> 4)) */
        MARK
        mov     (%rdx), %rdx            /* arguments[0] is the address of the pointer */
        mov     (%rdx), %rdx
        shr     $4, %rdx
        MIX
        movabs  $FORMAT, %rsi
        movabs  $PRINT, %r11
        xor     %eax, %eax              /* no arguments in vector registers */
        jmp     *%r11
        .balign 16, 0

kinds:                                  /* printf's kinds of %p(info, count, kinds, sizes): */
        endbr64                         /* kinds[0] = PA_POINTER, and there is one */
        movl    $5, (%rdx)
        mov     $1, %eax
        ret
        .balign 16, 0

.else                                   /* aarch64: arguments in x0, x1, x2 */

.macro  LOAD register, value            /* register = value, which lies behind the next jump */
        ldr     \register, 1f
        b       2f
1:      .quad   \value
2:
.endm

.macro  MARK                            /* *SEEN = 1 */
        LOAD    x9, SEEN
        mov     w10, #1
        strb    w10, [x9]
.endm

.macro  MIX                             /* x2 = mix(x2); changes x9 */
        LOAD    x9, FACTOR
        mul     x2, x2, x9
        ubfx    x2, x2, #0, #44         /* % 2**44 */
        eor     x2, x2, x2, lsr #22
        orr     x2, x2, #7 << 44        /* TOP */
.endm

hash:                                   /* as above */
        bti     c
        stp     x29, x30, [sp, #-16]!
        LOAD    x9, OLD
        blr     x9
        ldp     x29, x30, [sp], #16
        mov     x2, x0
        MIX
        lsr     x0, x2, #4
        ret
        .balign 16, 0

none:
        bti     c
        ldr     x0, 1f
        ret
1:      .quad   NONE
        .balign 16, 0

id:
        bti     c
        MARK
        lsr     x2, x1, #4
        MIX
        mov     x0, x2
        ldr     x9, 1f
        br      x9
1:      .quad   INTEGER
        .balign 16, 0

text:
        bti     c
        MARK
        ldr     x2, [x2]
        ldr     x2, [x2]
        lsr     x2, x2, #4
        MIX
        LOAD    x1, FORMAT
        ldr     x9, 1f
        br      x9
1:      .quad   PRINT
        .balign 16, 0

kinds:
        bti     c
        mov     w9, #5
        str     w9, [x2]
        mov     w0, #1
        ret
        .balign 16, 0

.endif
