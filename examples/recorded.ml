(* recorded.ml: an OCaml program that records itself, without `allogram run`: as a static executable, or when a part of it alone is
   of interest. It makes 110 pairs [2 words], with as many options [1] in them and cells [2] around them; 100 of each under the label
   "request". All of them die in the collection before "collected". Without an argument it records where ALLOGRAM_OUTPUT says so, and
   under `allogram run`; with one it starts itself, and writes a snapshot first.

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
