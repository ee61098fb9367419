/* node_object.S: the compiled node.bpf.c as data of allogram, for node_kernel.c. */
    .section .rodata
    .balign 16
    .global node_object
    .hidden node_object
    .type node_object, @object
node_object:
    .incbin "node_object.bin"
    .size node_object, . - node_object
    .balign 8
    .global node_object_bytes
    .hidden node_object_bytes
    .type node_object_bytes, @object
node_object_bytes:
    .quad node_object_bytes - node_object
    .size node_object_bytes, 8
    .section .note.GNU-stack, "", @progbits
