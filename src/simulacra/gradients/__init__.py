"""Clipped sums of gradients, one gradient per record, of which none is ever held where that would cost much.

    layers      what one layer adds: how long each record's gradient is, and the weighted sum over records
    tracing     one forward and one backward pass that keep what the layers need
    clipping    from lengths to weights, so that no record adds more than the bound, rounding included
    products    bfloat16 numbers, multiplied by matrix units without rounding
    summing     the three together, for a batch
    padding     the same at one fixed size, as a CUDA graph; empty slots add exactly nothing
    specified   the slow definition by `torch.func.vmap`, and the fallback for layers without a rule

A loss is a `torch.nn.Module` that gives one number per record: `loss(inputs, labels)` of shape (n,). See `LossGradient`
in `features/gradient.py` for the map that the vault is asked with.
"""
