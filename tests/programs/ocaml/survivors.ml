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
  let made_before = int_of_float (Gc.minor_words ()) in
  let before = promoted () in
  round 1000;
  Gc.minor (); (* promotes 1000 pairs and 1000 cells *)
  let made = int_of_float (Gc.minor_words ()) - made_before in
  let after = promoted () in
  ignore (Sys.opaque_identity (in_major 500));
  round 10;
  kept := [];
  Gc.full_major (); (* the blocks of round 10 die in the minor heap, those of round 1000 in the major heap *)
  (* The last number: the words of the minor heap that the collection after round 1000 found dead. *)
  Printf.printf "%d %d %d\n" (after - before) (promoted () - before) (made - (after - before))
