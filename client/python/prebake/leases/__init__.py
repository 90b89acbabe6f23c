"""The shim's side of a lease: what is there, what is computed here, what is waited for."""
