(* late_ocaml.ml: an OCaml program, to which allogram attaches and from which it detaches. The program runs the command `keep 1000`
   (see below), and prints "ready". Each line of its input is a command, which the program answers with the same line:

     make N     allocates N blocks (OCaml's `ref`) in make_one, and does not keep them
     keep N     allocates N blocks in keep_one, and keeps them in a list, whose N cells are blocks, too
     drop       empties this list, and runs a full collection
     minor      runs a minor collection
     churn N    allocates for N seconds of CPU time, in different functions
     memprof    starts a profile of the program with Gc.Memprof, and counts the samples
     over       ends the profile; the answer is "over some samples" or "over no samples" *)

let kept = ref []
let samples = ref 0
let[@inline never] make_one i = Sys.opaque_identity (ref i)
let[@inline never] keep_one i = kept := Sys.opaque_identity (ref i) :: !kept

let tracker =
  { Gc.Memprof.null_tracker with
    alloc_minor = (fun _ -> incr samples; None); alloc_major = (fun _ -> incr samples; None) }

let churn seconds =
  let until = Sys.time () +. seconds in
  while Sys.time () < until do
    ignore (Sys.opaque_identity (List.map String.length (List.init 50 string_of_int)))
  done

let answer line =
  match String.split_on_char ' ' line with
  | [ "make"; n ] -> for i = 1 to int_of_string n do ignore (Sys.opaque_identity (make_one i)) done; line
  | [ "keep"; n ] -> for i = 1 to int_of_string n do keep_one i done; line
  | [ "churn"; n ] -> churn (float_of_string n); line
  | [ "drop" ] -> kept := []; Gc.full_major (); line
  | [ "minor" ] -> Gc.minor (); line
  | [ "memprof" ] -> samples := 0; Gc.Memprof.start ~sampling_rate:0.01 ~callstack_size:5 tracker; line
  | [ "over" ] -> Gc.Memprof.stop (); if !samples > 0 then "over some samples" else "over no samples"
  | _ -> "?"

let () =
  for i = 1 to 1000 do keep_one i done;
  print_endline "ready";
  try while true do print_endline (answer (input_line stdin)) done with End_of_file -> ()
