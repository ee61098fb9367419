%% tls_transfer.erl: sends a payload through TLS 1.3 between two endpoints of one node, with a certificate made for it. The test counts
%% what the ssl application allocates for each TLS record, and who calls setelement/3: see tests/conformance/erlang_tls.py.
-module(tls_transfer).
-export([main/2, send/3, take/3, hand/2]).

%% Sends CHUNKS chunks of BYTES bytes; a chunk of fewer than 16,384 bytes is one TLS record.
main(Chunks, Bytes) ->
    {ok, _} = application:ensure_all_started(ssl),
    Certificate = [{digest, sha256}, {key, {namedCurve, secp256r1}}],
    Chain = #{root => Certificate, intermediates => [], peer => Certificate},
    #{server_config := ServerOptions, client_config := ClientOptions} =
        public_key:pkix_test_data(#{server_chain => Chain, client_chain => Chain}),
    Common = [binary, {packet, raw}, {active, false}, {versions, ['tlsv1.3']}],
    {ok, Listening} = ssl:listen(0, [{ip, {127, 0, 0, 1}} | Common ++ ServerOptions]),
    {ok, {_, Port}} = ssl:sockname(Listening),
    Self = self(),
    {Pid, Monitor} =
        spawn_monitor(fun() ->
                              {ok, Waiting} = ssl:transport_accept(Listening),
                              {ok, Socket} = ssl:handshake(Waiting),
                              Self ! {self(), take(Socket, Chunks, Bytes)},
                              ok = ssl:close(Socket)
                      end),
    {ok, Socket} = ssl:connect({127, 0, 0, 1}, Port, [{verify, verify_none} | Common ++ ClientOptions]),
    Payload = binary:copy(<<"0123456789abcdef">>, Bytes div 16),
    ok = send(Socket, Chunks, Payload),
    receive {Pid, Got} -> io:format("~w~n", [Got]) end,
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end,
    _ = hand(Chunks, list_to_tuple([a, b, c, d])),
    ssl:close(Listening).

send(_, 0, _) -> ok;
send(Socket, N, Payload) ->
    ok = ssl:send(Socket, Payload),
    send(Socket, N - 1, Payload).

take(_, 0, _) -> 0;
take(Socket, N, Bytes) ->
    {ok, Data} = ssl:recv(Socket, Bytes),
    byte_size(Data) + take(Socket, N - 1, Bytes).

%% each call copies a tuple of four elements and its header
hand(0, Tuple) -> Tuple;
hand(N, Tuple) -> hand(N - 1, setelement(3, Tuple, N)).
