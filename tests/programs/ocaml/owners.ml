(* Known amounts of memory outside of the OCaml heap, owned by bigarrays, custom blocks and channels. *)
type resource
external resource : int -> resource = "owners_resource"
external take : int -> unit = "owners_take"
external own : int -> resource = "owners_own"

let kept : Obj.t list ref = ref []
let matrix n = Bigarray.Array1.create Bigarray.Float64 Bigarray.C_layout n [@@inline never]

let () =
  for i = 1 to 20 do
    let made = matrix 1000 in (* 8000 bytes *)
    if i <= 5 then kept := Obj.repr made :: !kept
  done;
  for i = 1 to 30 do
    let made = resource 700 in
    if i <= 7 then kept := Obj.repr made :: !kept
  done;
  for _ = 1 to 4 do
    take 900;
    ignore (Sys.opaque_identity (own 900))
  done;
  close_in (open_in "/dev/null");
  Gc.full_major ();
  Gc.full_major ();
  ignore (Sys.opaque_identity !kept)
