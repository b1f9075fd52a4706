"""What secures an overlay: certificates, passwords, SCRAM, and the files they are in.

Entry: `SecuritySetup` in `setup` fills a `SecurityDirectory` of `directory`; `BrokerSecurity` in
`broker_files` names the files of a broker, `Credentials` in `credentials` those of a client.
`certificates` has the authority, `passwords` hashes and verifies passwords in a thread, `scram` is
the server's side of SCRAM-SHA-256.
Not here: rights and limits (`core.session`), rules as values and files (`model.records`,
`model.files`), TLS contexts (`runtime.net`), logins on connections (`runtime.entrance`).
Invariant: a key or certificate that exists is not overwritten. What others must not read is
readable by its owner only.
ADR 20, 21 (SCRAM).
"""
