(* Known numbers of blocks: a minor collection keeps some of the blocks, and the others die in it. A block of two words counts as three
   words, with its header. *)
let kept = ref []
let stays n = (n, n) [@@inline never]
let goes n = (n, n) [@@inline never]
let cell x = kept := x :: !kept [@@inline never]
let in_major n = Array.make n 0 [@@inline never]

let round n =
  for i = 1 to n do
    cell (stays i);
    ignore (Sys.opaque_identity (goes i))
  done
[@@inline never]

let promoted () = int_of_float (Gc.quick_stat ()).Gc.promoted_words

let () =
  Gc.minor ();
  let before = promoted () in
  round 1000;
  Gc.minor (); (* promotes 1000 pairs and 1000 cells *)
  let after = promoted () in
  ignore (Sys.opaque_identity (in_major 500));
  round 10;
  kept := [];
  Gc.full_major (); (* none of the last ten is kept; the thousand die in the major heap *)
  Printf.printf "%d %d\n" (after - before) (promoted () - before)
