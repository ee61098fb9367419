(* Three times, the program allocates 1000 pairs and 1000 list cells that stay in use, and 1000 lists of two cells that become garbage.
   Then it runs a whole major cycle and sleeps, so that allogram has time to write a dump (run --dump-at=gc). *)
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
