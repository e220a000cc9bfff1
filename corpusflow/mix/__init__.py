"""Mixtures: how much to take of which finished runs, said before anything is trained on, and the same every time.

`recipe` reads a YAML file, `shares` divides the budget, `groups` splits a run by a signal or by domain, `write` states and
writes the mixture; `corpusflow.feed.open_mixture` reads it.
"""
