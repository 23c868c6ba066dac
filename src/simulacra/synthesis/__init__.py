"""Synthesis: the whole story. Plan and release through the vault (`releasing`), train (`training`), sample (`run`).

    run = fit("patients.csv", schema="schema.toml", epsilon=1.0, delta=1e-5, adjacency="add-remove", out="run")
    run.sample(1000)

This file imports nothing: what only reads runs must not load, or even be able to reach, the vault.
"""
