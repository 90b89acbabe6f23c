"""Caches, each in a file of its own and behind the same two calls, as their users use them.

A file has `PACKAGES` (distributions, the cache itself first), `store(place)`, which fills `place/cache`, and
`read(place)`, which gives the list of all values, made anew where the cache does so. Each runs in an
environment (`../environments`), so that no file imports one that needs another.
"""
