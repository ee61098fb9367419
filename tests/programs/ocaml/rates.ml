(* Allocates 100,000 blocks at each of four places, of 1, 2, 3 and 9 words; and 1000 blocks of 400 words at a fifth place, in the major heap. *)
let one n = Sys.opaque_identity (ref n) [@@inline never]
let two n = Sys.opaque_identity (n, n) [@@inline never]
let three n = Sys.opaque_identity (n, n, n) [@@inline never]
let nine n = Sys.opaque_identity [| n; n; n; n; n; n; n; n; n |] [@@inline never]
let big n = Sys.opaque_identity (Array.make 400 n) [@@inline never]

let () =
  for i = 1 to 100_000 do
    ignore (one i);
    ignore (two i);
    ignore (three i);
    ignore (nine i);
    if i mod 100 = 0 then ignore (big i)
  done
