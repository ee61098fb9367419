(* The allocations are counted by hand: each line that allocates has the number of words of its block, without the header, in []. *)
let keep : Obj.t list ref = ref []

let pair x y =
  (x, (* [2] *)
   Some (* [1] *)
     (float_of_int y, (* [2] *)
      y + 1))
[@@inline never]
(* pair also allocates a boxed float, [1], on the line of float_of_int *)

let rec build n acc =
  if n = 0 then acc
  else build (n - 1) (pair n n :: acc) (* [2] *)

let text n = Bytes.create n [@@inline never] (* n / 8 + 1 words *)

let work () =
  let kept = build 1000 [] in
  let dropped = build 500 [] in
  let small = text 79 in (* [10] *)
  let big = Array.make 5000 0 in (* [5000], in the major heap *)
  ignore (Sys.opaque_identity (dropped, small)); (* [2] *)
  keep := Obj.repr kept :: Obj.repr big :: !keep (* [2], [2] *)

let marshal () =
  let source = List.init 100 (fun i -> (i, i)) in
  let copy : (int * int) list = Marshal.from_string (Marshal.to_string source [ Marshal.No_sharing ]) 0 in
  if copy <> source then exit 9

let () =
  let before = Gc.minor_words () in
  work ();
  let after = Gc.minor_words () in
  let report = Array.length Sys.argv > 1 in
  if report then Printf.printf "%.0f\n" (after -. before);
  marshal ();
  Gc.full_major ();
  Gc.full_major ()
