(* Three times, the program allocates 1000 pairs and cells that stay in use and 1000 lists of two cells that do not, runs a whole major
   cycle, and waits while allogram writes a dump. *)
let keep = ref []
let stay () = for i = 1 to 1000 do keep := (i, i) :: !keep done [@@inline never]
let go () = for i = 1 to 1000 do ignore (Sys.opaque_identity [ i; i ]) done [@@inline never]

let () =
  for _ = 1 to 3 do
    stay ();
    go ();
    Gc.full_major ();
    Unix.sleepf 0.2
  done
