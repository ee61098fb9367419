#!/usr/bin/env python3
"""Reports the words that each Erlang function allocates during a transfer through TLS 1.3, and the callers of setelement/3. The test
records a short and a long transfer (tls_transfer.erl). Each additional TLS record of the long transfer is encoded and decoded once, so
the difference between the two reports can be counted by hand."""

import sys

import erlang_counted
import recorded
import tap

SHORT, LONG, BYTES = 20, 60, 8000
MORE = LONG - SHORT
ONCE_A_RECORD = ["ssl:send/2", "ssl:recv/2", "tls_transfer:send/3", "tls_transfer:take/3", "tls_transfer:hand/2",
                 "tls_record_1_3:encode_plain_text/2", "tls_record_1_3:encode_tls_cipher_text/2",
                 "tls_record_1_3:decode_cipher_text/2", "tls_record_1_3:decode_inner_plaintext/1"]
# caller: (calls, words) of setelement/3 for each TLS record. A call copies a tuple; the words are its elements and a header word. In ssl of
# OTP 25.2 the copied tuples have 17 elements in ssl_gen_statem, and 9 and 3 elements in tls_sender.
COPIES_25 = {"tls_transfer:hand/2": (1, 5), "ssl_gen_statem:connection/3": (1, 18), "tls_sender:update_bytes_sent/3": (2, 20),
             "tls_sender:send_application_data/4": (1, 4)}


def transfer(erlang, chunks):
    """Records a transfer. Returns the rows of all functions by name, the total row, the rows of the callers of setelement/3 by name, and
    the path of the trace."""
    outcome, trace = erlang.record(["erl", "+S", "2", "-noshell", "-pa", erlang.folder, "-eval",
                                    "tls_transfer:main(%d, %d), halt()." % (chunks, BYTES)], name="tls%d" % chunks)
    if (outcome.status, outcome.stdout) != (0, b"%d\n" % (chunks * BYTES)):
        raise RuntimeError("status %d: %s%s" % (outcome.status, outcome.stdout, outcome.stderr))
    report = recorded.report(erlang.tools, trace, "--view=functions")
    callers = recorded.report(erlang.tools, trace, "--view=functions", "--callers=erlang:setelement/3")["callers"]
    return {row["function"]: row for row in report["functions"]}, report["total"], {row["function"]: row for row in callers}, trace


def table_is_whole(erlang, runs):
    """Shares, words per call and the total line agree with the numbers of the rows."""
    failures = tap.Failures()
    rows, total, _, trace = runs[LONG]
    for key in ("calls", "own_words", "own_ns"):
        failures.expect("total of " + key, total[key], sum(row[key] for row in rows.values()))
    for name, row in rows.items():
        failures.require("share of %s: %s" % (name, row), abs(row["percent"] - 100 * row["own_words"] / total["own_words"]) < 0.006)
        failures.require("words per call of %s: %s" % (name, row), row["calls"] == 0 or
                         abs(row["words_per_call"] - row["own_words"] / row["calls"]) < 0.006)
    failures.require("more than a thousand functions: %d" % len(rows), len(rows) > 1000)
    shown = recorded.run([erlang.tools.allogram, "report", trace, "--view=functions", "--limit=10"], env={"COLUMNS": "120"})
    lines = shown.stdout.decode().splitlines()
    head = next((line for line in lines if "words/call" in line), "")
    failures.expect("columns", head.split()[:5], ["function", "calls", "words", "%", "words/call"])
    failures.require("the report has a line for the total", any(line.split()[:1] == ["total"] for line in lines))
    return failures


def records_are_counted(_, runs):
    """Each TLS record is sent, encoded, decoded and received once."""
    failures = tap.Failures()
    for name in ONCE_A_RECORD:
        failures.expect(name, runs[LONG][0][name]["calls"] - runs[SHORT][0][name]["calls"], MORE)
    name = "crypto:crypto_one_time_aead/7"
    failures.expect("calls: each record is encrypted and decrypted", runs[LONG][0][name]["calls"] - runs[SHORT][0][name]["calls"], 2 * MORE)
    return failures


def callers_of_setelement(erlang, runs):
    """The counts of setelement/3 by caller equal the counts by hand, and their sums equal the function's own counts."""
    failures = tap.Failures()
    for rows, _, callers, _ in runs.values():
        own = rows["erlang:setelement/3"]
        failures.expect("calls of all callers", sum(row["calls"] for row in callers.values()), own["calls"])
        failures.expect("words of all callers", sum(row["words"] for row in callers.values()), own["own_words"])
        failures.require("the shares of all callers are 100 percent", abs(sum(row["percent"] for row in callers.values()) - 100) < 0.01 * len(callers))
    short, long = runs[SHORT][2], runs[LONG][2]
    wanted = COPIES_25 if erlang.release == 25 else {"tls_transfer:hand/2": COPIES_25["tls_transfer:hand/2"]}
    for name, (calls, words) in wanted.items():
        failures.expect(name, (long[name]["calls"] - short[name]["calls"], long[name]["words"] - short[name]["words"]),
                        (calls * MORE, words * MORE))
    failures.expect("calls, words of setelement/3 from hand/2 in the whole transfer", (long["tls_transfer:hand/2"]["calls"], long["tls_transfer:hand/2"]["words"]),
                    (LONG, 5 * LONG))
    return failures


def main():
    tools = recorded.tools_of_arguments()
    cases = [("a table whose sums agree", table_is_whole), ("each record of TLS once", records_are_counted),
             ("who makes setelement/3 allocate", callers_of_setelement)]
    results = tap.Plan(len(cases))
    why = erlang_counted.why_not(tools)
    with recorded.Folder() as folder:
        if not why:
            erlang = erlang_counted.Erlang(tools, folder, programs=("tls_transfer",))
            if erlang.evaluate("io:put_chars([code:which(ssl)])") == "non_existing":
                why = "no ssl application here (package erlang-ssl)"
        if why:
            for name, _ in cases:
                results.skip(name, why)
            return 0
        runs = {chunks: transfer(erlang, chunks) for chunks in (SHORT, LONG)}
        for name, case in cases:
            results.run(name, lambda case=case: case(erlang, runs))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
