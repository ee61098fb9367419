/* fake_julia_codegen.c: defines a symbol that a libjulia has only if it contains the compiler. If
 * fake_julia.c is linked without this file, it looks like the loader library of Julia 1.6 and
 * later. */
void LLVMExtraAddAllocOptPass(void);
void LLVMExtraAddAllocOptPass(void) {
}
