"""Empirical lower bounds on epsilon, on invented data: if one is above the claim, the claim is wrong.

An audit cannot prove privacy. It attacks the real vault where it hurts most and reports what the attack is sure of.
"""

from __future__ import annotations

from simulacra.audit.lower_bound import epsilon_lower_bound, gaussian_lower_bound
from simulacra.audit.worst_case import AuditResult, audit_loop, audit_release

__all__ = ["AuditResult", "audit_loop", "audit_release", "epsilon_lower_bound", "gaussian_lower_bound"]
