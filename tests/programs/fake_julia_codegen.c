/* fake_julia_codegen.c: beside fake_julia.c, what only a libjulia with its compiler in it has;
 * without it: a loader, as from 1.6 on. */
void LLVMExtraAddAllocOptPass(void);
void LLVMExtraAddAllocOptPass(void) {
}
