(* C calls OCaml, which calls C; the innermost function allocates, and its stack must be complete. *)
external caller : (int -> 'a) -> int -> 'a = "between_caller"
external make : int -> int array = "between_make"
external take : int -> unit = "between_take"

let inner n =
  take n;
  let made = make 300 in
  (n, made)

let () =
  for i = 1 to 10 do
    ignore (Sys.opaque_identity (caller inner i))
  done
