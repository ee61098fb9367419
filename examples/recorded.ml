(* recorded.ml: an OCaml program that records itself, without `allogram run`. This is the way for a static executable, and for a
   program of which only a part is to be recorded. It allocates 110 pairs of 2 words. Each pair contains an option of 1 word, and is in a list
   cell of 2 words. 100 of the pairs, with their options and list cells, have the label "request". All these blocks die in the
   collection before the mark "collected". With an argument the program starts a session, writes the trace to that path, and writes a
   snapshot before it ends. Without an argument the program is recorded if ALLOGRAM_OUTPUT is set, or under `allogram run`.

     ocamlfind ocamlopt -package allogram -linkpkg recorded.ml -o recorded *)
let kept = ref []
let pair n = (n, Some n) [@@inline never]
let work n = for i = 1 to n do kept := pair i :: !kept done [@@inline never]
let or_fail = function Ok () -> () | Error why -> prerr_endline why; exit 1

let () =
  let own = Array.length Sys.argv > 1 in
  if own then or_fail (Allogram.start ~output:Sys.argv.(1) ());
  Allogram.mark "phase";
  Allogram.with_label "request" (fun () -> work 100);
  work 10;
  if own then or_fail (Allogram.snapshot (Sys.argv.(1) ^ ".snapshot"));
  kept := [];
  Gc.full_major ();
  Gc.full_major ();
  Allogram.mark "collected";
  Allogram.stop ();
  print_endline "done"
