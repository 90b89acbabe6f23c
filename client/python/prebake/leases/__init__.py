"""The shim's side of a lease: what may be served and stored, and how that is proven."""
