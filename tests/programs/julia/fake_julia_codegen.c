/* fake_julia_codegen.c: defines a symbol that a libjulia has only if it contains the compiler.
 * Without this file, the program of fake_julia.c looks like the loader library of Julia 1.6 and
 * later. */
void LLVMExtraAddAllocOptPass(void);
void LLVMExtraAddAllocOptPass(void) {
}
