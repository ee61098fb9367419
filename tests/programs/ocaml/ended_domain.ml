(* OCaml 5: the blocks of a domain that has ended die later, in a collection of another domain. *)
let cell i = ref i [@@inline never]
let cells () = List.init 300 (fun i -> Sys.opaque_identity (cell i)) [@@inline never]

let () =
  let made = ref (Domain.join (Domain.spawn cells)) in
  let others = List.init 2 (fun _ -> Domain.spawn cells) in
  let more = ref (List.concat_map Domain.join others) in
  Gc.full_major ();
  made := [];
  Gc.full_major (); (* 300 die *)
  Gc.compact ();
  more := List.filteri (fun i _ -> i < 100) !more;
  Gc.full_major (); (* 500 die *)
  Printf.printf "%d\n" (List.length !more + List.length !made)
