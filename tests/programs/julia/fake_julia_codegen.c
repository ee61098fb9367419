/* fake_julia_codegen.c: linked with fake_julia.c, it defines a symbol that only a libjulia with the
 * compiler inside has. Without this symbol, fake_julia.c looks like the loader library of Julia 1.6
 * and later. */
void LLVMExtraAddAllocOptPass(void);
void LLVMExtraAddAllocOptPass(void) {
}
