"""The boundary: the few files an auditor must read. Nothing else in this project ever sees a private record.

Read them in this order:

    budget        what is promised: epsilon, delta and the neighbouring relation
    gaussian, subsampled, accountant
                  what noise costs: pure functions from events to (epsilon, delta) and back
    query, plan   what may be asked, what one record can do to the answer, and how much noise that takes
    records, sealed, summing
                  private records, clamped to the schema, and clipped sums of them
    noise         exact and fast Gaussian noise, Poisson samples; from the operating system, never seeded
    chain, ledger what was spent, for ever, in a hash-chained file; durable before noise is drawn
    book, permit  what the vault needs of a ledger, and draws paid for in advance, for a machine without one
    loop          noisy sums again and again, and why the accounts cover every one of them
    vault         plan check, ledger, sum, noise, release; in that order
    discovery     unlisted categories, by noisy counts and a threshold
    release, certificate, durable
                  what leaves, what is stated about it, and how both survive a crash
"""
