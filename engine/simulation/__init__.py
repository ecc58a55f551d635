"""Simulated feedback: arrivals, answers, rounds, regret."""
